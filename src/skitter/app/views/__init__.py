"""Views of jobs as values: status, jobs, failed, why. The command line puts them into words; a server may send them."""
