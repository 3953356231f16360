// Colly on one site: colly START_URL MAX_PAGES.
//
// Its queue with 64 threads, connections kept open, all URLs in memory. (An asynchronous collector starts a goroutine for
// each link at once, and takes half as long again on documentation and three times as long on small pages.) It uses
// every core, as it does by default. It cannot be told to stop at a number of pages, so the process ends there. The
// figures are those of bench/peers/meter.py.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gocolly/colly/v2"
	"github.com/gocolly/colly/v2/queue"
)

const inFlight = 64

type meter struct {
	mutex    sync.Mutex
	maxPages int
	urls     map[string]bool
	began    time.Time
	cpu      time.Duration
	lines    *bufio.Writer
}

func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// write adds one JSON line for a page.
func (m *meter) write(item map[string]any) {
	line, err := json.Marshal(item)
	if err != nil {
		panic(err)
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.lines.Write(line)
	m.lines.WriteByte('\n')
}

// page counts a page that was fetched and parsed, and ends the process when there are enough.
func (m *meter) page(url string) {
	m.mutex.Lock()
	// Never unlocked at the end: no other callback may speak then.
	if m.urls[url] = true; len(m.urls) >= m.maxPages {
		m.report()
		os.Exit(0)
	}
	m.mutex.Unlock()
}

func (m *meter) report() {
	seconds, used := time.Since(m.began).Seconds(), (cpu() - m.cpu).Seconds()
	m.lines.Flush()
	pages := float64(len(m.urls))
	told, err := json.Marshal(map[string]any{
		"peer":             "colly",
		"version":          version(),
		"pages":            len(m.urls),
		"pages_per_second": pages / seconds,
		"cpu_ms_per_page":  used * 1000 / max(1, pages),
		"rss_mb":           peakMB(),
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(string(told))
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/gocolly/colly/v2" {
			return strings.TrimPrefix(module.Version, "v")
		}
	}
	return "?"
}

func peakMB() int {
	status, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kilobytes, _ := strconv.Atoi(fields[0])
	return kilobytes / 1000
}

func main() {
	startURL := os.Args[1]
	maxPages, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	start, err := url.Parse(startURL)
	if err != nil {
		panic(err)
	}
	file, err := os.Create("pages.jsonl")
	if err != nil {
		panic(err)
	}
	m := &meter{maxPages: maxPages, urls: map[string]bool{}, lines: bufio.NewWriter(file)}

	collector := colly.NewCollector(colly.AllowedDomains(start.Hostname()))
	collector.DisableCookies()
	collector.SetRequestTimeout(60 * time.Second)
	// Go keeps two connections a host by default.
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = inFlight
	collector.WithTransport(transport)
	requests, err := queue.New(inFlight, &queue.InMemoryQueueStorage{MaxSize: 10_000_000})
	if err != nil {
		panic(err)
	}
	var known sync.Map
	collector.OnHTML("html", func(page *colly.HTMLElement) {
		m.write(map[string]any{"url": page.Request.URL.String(), "title": page.DOM.Find("title").First().Text()})
		// A callback for each link would cost half as much again.
		for _, href := range page.ChildAttrs("a", "href") {
			link := page.Request.AbsoluteURL(href)
			if _, found := known.LoadOrStore(link, true); link != "" && !found {
				_ = requests.AddURL(link)
			}
		}
	})
	collector.OnScraped(func(response *colly.Response) { m.page(response.Request.URL.String()) })

	m.began, m.cpu = time.Now(), cpu()
	if err := requests.AddURL(startURL); err != nil {
		panic(err)
	}
	if err := requests.Run(collector); err != nil {
		panic(err)
	}
	m.report()
}
