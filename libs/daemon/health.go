package daemon

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
)

// checkTimeout is how long a Check may take. By Kubernetes' default a prober waits one second, and
// it should get the reason.
const checkTimeout = 500 * time.Millisecond

// Health serves /livez, /readyz and /metrics of a process that has no other HTTP server.
type Health struct {
	// Address is host:port; port 0 means any free port.
	Address string
	// Gatherer provides the metrics of /metrics.
	Gatherer prometheus.Gatherer
	// Check returns the reason why the process is not ready, which /readyz returns; nil if it is
	// ready. It may wait for readiness until its context ends, after half a second. With a nil
	// Check the process is always ready.
	Check func(ctx context.Context) error
	// Debug holds further handlers by path; they serve only clients on this machine.
	Debug map[string]http.Handler
}

// Run serves until ctx ends.
func (h *Health) Run(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", h.Address)
	if err != nil {
		return fmt.Errorf("listening for health checks on %s: %w", h.Address, err)
	}
	server := &http.Server{Handler: h.handler(), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving health checks on %s: %w", h.Address, err)
	case <-ctx.Done():
	}
	err = server.Close()
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func (h *Health) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if h.Check != nil {
			ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
			defer cancel()
			if err := h.Check(ctx); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		_, _ = fmt.Fprint(w, "ok")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(h.Gatherer, promhttp.HandlerOpts{}))
	for path, handler := range h.Debug {
		mux.Handle(path, fromHere(handler))
	}
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
