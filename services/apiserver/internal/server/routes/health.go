// Package routes serves what the apiserver's operators need: its health, its version, its metrics
// and the hops of recent changes.
package routes

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
)

// checkTimeout bounds one check.
const checkTimeout = 5 * time.Second

// Check is one health check.
type Check struct {
	// Name is the check's path below /livez or /readyz.
	Name string
	// Run returns nil, or what is wrong.
	Run func(ctx context.Context) error
}

// Health serves a set of checks as Kubernetes does. The response is "ok" or, if one fails or with
// ?verbose, a line for each. ?exclude=NAME skips a check; /NAME runs that check alone.
type Health struct {
	// Path is where the checks are served: /livez, /readyz or /healthz.
	Path   string
	Checks []Check
	Logger *slog.Logger
}

// ServeHTTP serves a request at Path or below it.
func (h *Health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-cache, no-store, must-revalidate")
	name := strings.Trim(strings.TrimPrefix(r.URL.Path, h.Path), "/")
	if name != "" {
		h.one(w, r, name)
		return
	}
	query := r.URL.Query()
	text, failed := h.all(r.Context(), query["exclude"], showsReasons(r))
	what := strings.TrimPrefix(h.Path, "/")
	switch {
	case failed:
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = fmt.Fprintf(w, "%s%s check failed\n", text, what)
	case query.Has("verbose"):
		_, _ = fmt.Fprintf(w, "%s%s check passed\n", text, what)
	default:
		_, _ = fmt.Fprint(w, "ok")
	}
}

func (h *Health) one(w http.ResponseWriter, r *http.Request, name string) {
	i := slices.IndexFunc(h.Checks, func(c Check) bool { return c.Name == name })
	if i < 0 {
		http.NotFound(w, r)
		return
	}
	if err := h.run(r.Context(), h.Checks[i]); err != nil {
		h.failed(r.Context(), name, err)
		http.Error(w, "internal server error: "+reason(err, showsReasons(r)), http.StatusInternalServerError)
		return
	}
	_, _ = fmt.Fprint(w, "ok")
}

// showsReasons reports whether the caller may see why a check fails. The reason may name addresses, so
// only authenticated users and clients on the server's own machine see it.
func showsReasons(r *http.Request) bool {
	if user, ok := authn.UserFrom(r.Context()); ok && !user.Unauthenticated() {
		return true
	}
	return Local(r)
}

// Local reports whether a request comes from the machine that the server runs on.
func Local(r *http.Request) bool {
	address, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && address.Addr().Unmap().IsLoopback()
}

// all runs the checks that are not excluded and returns a line for each, with the reasons of
// failures if reasons is true.
func (h *Health) all(ctx context.Context, excluded []string, reasons bool) (text string, failed bool) {
	var lines strings.Builder
	for _, check := range h.Checks {
		if slices.Contains(excluded, check.Name) {
			fmt.Fprintf(&lines, "[+]%s excluded: ok\n", check.Name)
			continue
		}
		if err := h.run(ctx, check); err != nil {
			h.failed(ctx, check.Name, err)
			fmt.Fprintf(&lines, "[-]%s failed: %s\n", check.Name, reason(err, reasons))
			failed = true
			continue
		}
		fmt.Fprintf(&lines, "[+]%s ok\n", check.Name)
	}
	return lines.String(), failed
}

func (h *Health) failed(ctx context.Context, check string, err error) {
	h.Logger.WarnContext(ctx, "a health check failed", "check", check, "path", h.Path, "err", err)
}

// reason returns why a check fails, in one line, if show is true.
func reason(err error, show bool) string {
	if !show {
		return "reason withheld"
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}

// Results runs all checks at once and returns their results by name.
func (h *Health) Results(ctx context.Context) map[string]error {
	results := make([]error, len(h.Checks))
	var together sync.WaitGroup
	for i, check := range h.Checks {
		together.Go(func() { results[i] = h.run(ctx, check) })
	}
	together.Wait()
	byName := map[string]error{}
	for i, check := range h.Checks {
		byName[check.Name] = results[i]
	}
	return byName
}

func (h *Health) run(ctx context.Context, check Check) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return check.Run(ctx)
}
