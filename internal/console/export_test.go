package console

import "time"

// WithoutHeartbeat has live pages look again only when something changes.
func WithoutHeartbeat(config Config) Config {
	config.heartbeat = time.Hour
	return config
}
