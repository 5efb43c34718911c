module github.com/slipway-dev/slipway/nodebundle/echo

go 1.26.0
