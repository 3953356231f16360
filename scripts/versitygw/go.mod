module skitter/tests

go 1.24

require github.com/versity/versitygw v1.8.0
