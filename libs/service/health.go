package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/garboard/garboard/libs/informer/watcher"
	"github.com/garboard/garboard/libs/lifecycle"
)

// checkTimeout is how long a check may take. By Kubernetes' default a prober waits one second, and
// it should get the reason.
const checkTimeout = 500 * time.Millisecond

// Runner is a service.
type Runner interface {
	// Run runs the service until ctx ends.
	Run(ctx context.Context) error
	// Ready returns the reason why the service is not ready; nil if it is. It may wait until ctx
	// ends.
	Ready(ctx context.Context) error
	// Watchers returns what the service follows, and how far it lags.
	Watchers() []watcher.Status
}

// Health returns the stage of a process that serves /livez, /readyz and /metrics of a service at
// address, HOST:PORT, and on this machine also what the service follows. Port 0 means any free one.
func Health(address string, gatherer prometheus.Gatherer, service Runner) lifecycle.Stage {
	h := &health{address: address, gatherer: gatherer, service: service}
	return lifecycle.Stage{Name: "health", Run: h.run}
}

type health struct {
	address  string
	gatherer prometheus.Gatherer
	service  Runner
}

// run serves until ctx ends.
func (h *health) run(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", h.address)
	if err != nil {
		return fmt.Errorf("listening for health checks on %s: %w", h.address, err)
	}
	server := &http.Server{Handler: h.handler(), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving health checks on %s: %w", h.address, err)
	case <-ctx.Done():
	}
	err = server.Close()
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func (h *health) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
		defer cancel()
		if err := h.service.Ready(ctx); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprint(w, "ok")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(h.gatherer, promhttp.HandlerOpts{}))
	mux.Handle(watcher.Path, fromHere(watcher.Serve(h.service.Watchers)))
	return mux
}

// fromHere refuses clients on other machines: this port does not authenticate clients.
func fromHere(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if from, err := netip.ParseAddrPort(r.RemoteAddr); err != nil || !from.Addr().Unmap().IsLoopback() {
			http.Error(w, "this is available only to programs on the same machine; ask an apiserver", http.StatusForbidden)
			return
		}
		handler.ServeHTTP(w, r)
	})
}
