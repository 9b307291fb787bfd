package apiserver

import (
	"context"
	"net/http"
	"time"

	"github.com/garboard/garboard/libs/bus/bushttp"
)

// serveBus serves requests that come over NATS like those that come over HTTPS, once NATS was
// reached. After ctx ends, it lets the requests in flight finish, for at most patience.
func (p *plane) serveBus(ctx context.Context, handler http.Handler, patience time.Duration) error {
	select {
	case <-p.reached:
	case <-ctx.Done():
		return nil
	}
	return bushttp.NewServer(bushttp.ServerConfig{
		Conn: p.conn.Load(), Handler: handler, Drain: patience, Logger: p.cfg.Logger, Registerer: p.cfg.Registerer,
	}).Run(ctx)
}
