"""Run the tests that need no servers with the Pythons that a newcomer has.

`make pythons` runs this for two suites of Debian: trixie, which has Python 3.13, and forky, which has Python 3.14. The
words of the command are other suites. For each, debootstrap makes a fresh system in `build/pythons/SUITE`, once. The
files of this checkout are copied into it. There, a user without privileges runs the first crawl (`make crawl`) and the
tests (`make test SERVERS=none`), which install the locked packages.

MIRROR=URL is the mirror of Debian to take; otherwise it is the one that this machine's apt uses. The settings of pip
and the certificates of this machine hold inside as well. This needs root, because of chroot, and a machine with apt.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUITES = ("trixie", "forky")
FOLDER = ROOT / "build" / "pythons"
PACKAGES = "ca-certificates,gcc,git,libc6-dev,make,procps,python3,python3-venv"
"""The compiler builds programs of the tests. Without the headers of Python, every locked package must have a wheel."""
FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
"""Files by which this machine reaches package registries."""
VARIABLES = ("PIP_", "UV_", "SSL_CERT_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ARGS", "JOBS")
"""How the names of variables begin by which this machine reaches registries; and the options of `make test`."""
USER = "newcomer"
CHECKOUT = f"home/{USER}/skitter"
# The mounts belong to a namespace that ends with the command: none is left for somebody who removes the folder.
ENTER = """
set -e
mount --rbind /dev "$1/dev"
mount --rbind /sys "$1/sys"
mount -t proc proc "$1/proc"
system=$1 user=$2
shift 2
exec chroot --userspec="$user" "$system" "$@"
"""


def run(program: str, *words: str | Path) -> str:
    """Run a command that must succeed, and return what it prints."""
    path = shutil.which(program)
    if path is None:
        sys.exit(f"error: {program} is missing\nhint: apt-get install {program}")
    done = subprocess.run([path, *words], check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"error: {program} ended with {done.returncode}: {done.stdout[-500:].strip()}")
    return done.stdout


def mirror() -> list[str]:
    """The mirror that apt uses for Debian; none, which means debootstrap's own, where apt has another distribution."""
    if os.environ.get("MIRROR"):
        return [os.environ["MIRROR"]]
    addresses = run("apt-get", "indextargets", "--format", "$(REPO_URI)").split()
    return [address for address in addresses if address.rstrip("/").endswith("/debian")][:1]


def make_system(suite: str, system: Path) -> None:
    """Make a system, unless it is there. The mark at its end tells that it is whole."""
    mark = system / "etc" / "made-by-debootstrap"
    if mark.exists():
        return
    shutil.rmtree(system, ignore_errors=True)
    system.parent.mkdir(parents=True, exist_ok=True)
    if shutil.which("debootstrap") is None:
        run("apt-get", "-qq", "update")
        run("apt-get", "-qq", "install", "-y", "debootstrap", "debian-archive-keyring")
    print(f"== {suite}: debootstrap", flush=True)
    # The suite may be newer than this machine's debootstrap and have no script there. That of sid makes all of today.
    script = "/usr/share/debootstrap/scripts/sid"
    source = mirror() or [""]
    run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", suite, system, *source, script)
    run("chroot", system, "useradd", "--create-home", USER)
    mark.touch()


def copy_files(system: Path) -> None:
    """Copy what git tracks or would track, and the files of this machine. The environment from the last time stays."""
    git = ("git", "-c", "safe.directory=*", "-C", ROOT)
    names = run(*git, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    checkout = system / CHECKOUT
    checkout.mkdir(exist_ok=True)
    run("find", checkout, "-mindepth", "1", "-maxdepth", "1", "!", "-name", ".venv", "-exec", "rm", "-r", "{}", "+")
    for name in names:
        if (ROOT / name).is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, checkout / name, follow_symlinks=False)
    run("chroot", system, "chown", "-R", f"{USER}:", f"/{CHECKOUT}")
    for file in {*FILES, *(value for value in settings().values() if value.startswith("/"))}:
        if Path(file).is_file():
            (system / file[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, system / file[1:])


def settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.upper().startswith(VARIABLES)}


def inside(system: Path, *words: str) -> bool:
    """Run a command in the system as its user; return whether it has succeeded."""
    environment = {
        "HOME": f"/home/{USER}",
        "USER": USER,
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        **settings(),
    }
    command = ["env", "-i", *(f"{name}={value}" for name, value in environment.items()), *words]
    enter = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "enter", str(system), USER]
    return subprocess.run([*enter, *command], check=False, stdin=subprocess.DEVNULL).returncode == 0


def main(suites: list[str]) -> int:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        print("error: a system is made by root, with apt\nhint: run it with sudo, on Debian", file=sys.stderr)
        return 2
    failed = []
    for suite in suites or SUITES:
        system = FOLDER / suite
        make_system(suite, system)
        copy_files(system)
        for words in (["crawl"], ["test", "SERVERS=none"]):
            print(f"== {suite}: make {' '.join(words)}", flush=True)
            if not inside(system, "make", "--no-print-directory", "-C", f"/{CHECKOUT}", *words):
                failed.append(f"error: make {' '.join(words)} has failed in {system}")
    print("\n".join(failed), file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
