module github.com/slipway-dev/slipway/sdk

go 1.26.0
