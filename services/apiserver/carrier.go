package apiserver

import (
	"context"
	"net/http"

	"github.com/garboard/garboard/libs/bus/carrier"
)

// carry serves requests that come over NATS, once that was reached, as those that come over
// HTTPS, until ctx ends and those in work are answered.
func (p *plane) carry(ctx context.Context, handler http.Handler) error {
	select {
	case <-p.reached:
	case <-ctx.Done():
		return nil
	}
	return carrier.NewServer(carrier.ServerConfig{
		Conn: p.conn.Load(), Handler: handler, Drain: drainTimeout, Logger: p.cfg.Logger, Registerer: p.cfg.Registerer,
	}).Run(ctx)
}
