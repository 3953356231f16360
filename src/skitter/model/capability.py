"""The words of ``[remote] allow`` in skitter.toml: the kinds of work that an owner may take from others."""

SUBMIT, SCHEDULE, SETTINGS, PROXIES = "submit", "schedule", "settings", "proxies"
MEANINGS = {
    SUBMIT: "start jobs and runs, or add URLs and outputs to them",
    SCHEDULE: "add, change, run or remove schedules",
    SETTINGS: "change settings or import cookies",
    PROXIES: "add, ban or remove proxies",
}
"""Each word, and the work that it allows. Every command that reads the file checks the words, without ``http`` too."""
