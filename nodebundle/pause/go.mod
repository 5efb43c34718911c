module github.com/slipway-dev/slipway/nodebundle/pause

go 1.26.0
