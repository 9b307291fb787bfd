package apiserver

import (
	"context"
	"net/http"
	"time"

	"github.com/garboard/garboard/libs/bus/bushttp"
)

// carry serves requests that come over NATS, once that was reached, as those that come over
// HTTPS, until ctx ends and those in work are answered, or patience is over.
func (p *plane) carry(ctx context.Context, handler http.Handler, patience time.Duration) error {
	select {
	case <-p.reached:
	case <-ctx.Done():
		return nil
	}
	return bushttp.NewServer(bushttp.ServerConfig{
		Conn: p.conn.Load(), Handler: handler, Drain: patience, Logger: p.cfg.Logger, Registerer: p.cfg.Registerer,
	}).Run(ctx)
}
