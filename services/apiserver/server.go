package apiserver

import (
	"context"
	"sync/atomic"
)

// Server is an apiserver.
type Server struct {
	cfg   Config
	state atomic.Pointer[running]
	ready chan struct{}
}

type running struct{}

// New checks the configuration. It starts and writes nothing.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	return &Server{cfg: cfg, ready: make(chan struct{})}, nil
}

// Ready waits until the server answers requests.
func (s *Server) Ready(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run serves until ctx ends, and returns when everything that it started has ended.
func (s *Server) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
