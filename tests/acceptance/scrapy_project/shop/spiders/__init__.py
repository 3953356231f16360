# This package contains the spiders of the project.
