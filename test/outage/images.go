package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/garboard/garboard/test/containers/harness"
)

// images serves the images of pods to the nodes until the stage is closed, and returns the URL.
func (s *stage) images(ctx context.Context) (string, error) {
	registry, err := harness.Registry(ctx, filepath.Join(s.dir, "images"))
	if err != nil {
		return "", err
	}
	gateway, err := s.project.Gateway(ctx)
	if err != nil {
		return "", err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(gateway, "0"))
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: registry, ReadHeaderTimeout: time.Minute}
	s.beside(ctx, func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { _ = server.Close() })()
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	return "http://" + listener.Addr().String(), nil
}
