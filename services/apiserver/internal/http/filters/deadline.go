package filters

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/snapshot"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// DefaultTimeout is the default of Config.Timeout, and of kube-apiserver's --request-timeout.
const DefaultTimeout = time.Minute

const (
	// sendGrace is how long after the deadline a client may still send its request. Over HTTP/1 the
	// end of reading also ends the request's context, which must have expired before.
	sendGrace = time.Second
	// readGrace is how long after the deadline a client may still read the response, which says
	// that the request took too long.
	readGrace = 5 * time.Second
)

// isLong reports whether a request is long-running: watches, the subresources whose rows say so, and
// profiles, as in kube-apiserver. The snapshot of etcd and tunnels to the API are long-running too.
func isLong(table *scheme.Table, a authz.Attributes) bool {
	if !a.IsResource() {
		return a.Path == snapshot.Path || a.Path == nodeapi.TunnelPath || strings.HasPrefix(a.Path, "/debug/pprof/")
	}
	if a.Verb == "watch" || a.Verb == "proxy" {
		return true
	}
	if a.Subresource == "" {
		return false
	}
	kind := table.Resource(schema.GroupVersionResource{Group: a.Group, Version: a.Version, Resource: a.Resource})
	if kind == nil {
		return false
	}
	row := kind.Subresource(a.Subresource)
	return row != nil && row.LongRunning
}

// isLongElsewhere reports whether a request that another server serves may last long: its kinds are not known
// here, so that Kubernetes' usual names count (kube-apiserver's BasicLongRunningRequestCheck).
func isLongElsewhere(a authz.Attributes) bool {
	return a.IsResource() && slices.Contains([]string{"attach", "exec", "log", "portforward", "proxy"}, a.Subresource)
}

// bound ends the request at its deadline, whatever the client does. A client that doesn't send its
// body, or doesn't read the response, would otherwise hold its slot for ever. bound must be called
// before the request is served, and end after it.
func (q *request) bound() (end func()) {
	if q.long || q.Timeout < 0 {
		return func() {}
	}
	timeout, err := timeoutOf(q.r, q.Timeout)
	q.invalid = err
	at := q.began.Add(timeout)
	ctx, cancel := context.WithDeadline(q.r.Context(), at)
	q.r = q.r.WithContext(ctx)
	// Not every connection can have deadlines.
	control := http.NewResponseController(q.w.ResponseWriter)
	_ = control.SetReadDeadline(at.Add(sendGrace))
	_ = control.SetWriteDeadline(at.Add(readGrace))
	return func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			q.Metrics.timedOut(q.what, q.w.code())
		}
		cancel()
	}
}

// timeoutOf returns how long a request may take: as long as its client says, but at most most.
func timeoutOf(r *http.Request, most time.Duration) (time.Duration, error) {
	if r.URL.RawQuery == "" {
		return most, nil
	}
	given := r.URL.Query().Get("timeout")
	if given == "" {
		return most, nil
	}
	timeout, err := time.ParseDuration(given)
	switch {
	case err != nil:
		return most, apierrors.NewBadRequest(fmt.Sprintf("invalid timeout specified in the request URL - %v", err))
	case timeout <= 0 || timeout > most:
		return most, nil
	}
	return timeout, nil
}
