package filters

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/bus/inflight"
	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// retryAfter is the number of seconds after which a client that was turned away may retry.
const retryAfter = 1

// One user may hold at most one in userShare of the unreserved slots. One slot in leaderShare,
// one in nodeShare and one in planeShare are reserved for the clients that keep the plane alive.
const (
	userShare   = 4
	leaderShare = 16
	nodeShare   = 8
	planeShare  = 4
)

// Limits bound the requests in flight. Requests of administrators and probes don't count.
type Limits struct {
	// Reads and Writes are the bounds of requests that are not long-running; there is no bound if not positive.
	Reads, Writes int
	// Sessions bounds the long-running requests that carry streams from elsewhere: logs, exec, attach, port-forward
	// and proxies. There is no bound if not positive.
	Sessions int
	// NoShares hands out slots first come, first served. It is for measurements.
	NoShares bool
}

// class is a class of requests for which some slots are reserved.
type class int

const (
	ordinary class = iota
	leader         // a component of the plane writes its leader election lease
	node           // a node agent
	planeOwn       // controllers, scheduler and the service accounts of kube-system
	exempt         // needs no slot
)

// limits are the slots for requests in flight.
type limits struct{ reads, writes, sessions *pool }

func newLimits(cfg Limits) limits {
	l := limits{reads: newPool(cfg.Reads, cfg.NoShares), writes: newPool(cfg.Writes, cfg.NoShares)}
	if each := max(1, cfg.Sessions/userShare); cfg.Sessions > 0 {
		if cfg.NoShares {
			each = cfg.Sessions
		}
		l.sessions = &pool{open: inflight.New(cfg.Sessions, each)}
	}
	return l
}

// begin reserves a slot for a session and returns false if none is free.
func (l limits) begin(a authz.Attributes, user authn.User) (leave func(), ok bool) {
	return l.sessions.acquire(user.Name, classOf(a, user))
}

// isSession reports whether a long-running request carries a stream from elsewhere.
func isSession(a authz.Attributes) bool {
	return a.IsResource() && a.Verb != "watch" || !a.IsResource() && a.Path == nodeapi.TunnelPath
}

// acquire reserves a slot for a request and returns false if none is free.
func (l limits) acquire(a authz.Attributes, user authn.User) (leave func(), ok bool) {
	if isRead(a) {
		return l.reads.acquire(user.Name, classOf(a, user))
	}
	return l.writes.acquire(user.Name, classOf(a, user))
}

// pool is the slots for reads, or those for writes.
type pool struct {
	open     *inflight.Limiter
	reserved map[class]*inflight.Limiter
}

// newPool returns a pool, or nil, which never runs out of slots, if all is not positive.
func newPool(all int, noShares bool) *pool {
	if all <= 0 {
		return nil
	}
	if noShares {
		return &pool{open: inflight.New(all, all)}
	}
	leaders, nodes, own := all/leaderShare, all/nodeShare, all/planeShare
	return &pool{
		open: inflight.New(all-leaders-nodes-own, max(1, all/userShare)),
		reserved: map[class]*inflight.Limiter{
			leader: inflight.New(leaders, leaders),
			node:   inflight.New(nodes, max(1, nodes/userShare)),
			// The plane's own users are few, and all of them are trusted.
			planeOwn: inflight.New(own, own),
		},
	}
}

// acquire reserves a slot for a request: one of its class's slots, or else one open to all.
func (p *pool) acquire(user string, of class) (leave func(), ok bool) {
	if p == nil || of == exempt {
		return func() {}, true
	}
	for _, limiter := range []*inflight.Limiter{p.reserved[of], p.open} {
		if limiter != nil && limiter.TryAcquire(user) {
			return func() { limiter.Release(user) }, true
		}
	}
	return nil, false
}

// classOf classifies a request as Kubernetes' suggested flow schemas do. Administrators are exempt,
// so that they can help an overloaded server. Probes are exempt, since a busy server is still
// alive. https://kubernetes.io/docs/concepts/cluster-administration/flow-control/#defaults
func classOf(a authz.Attributes, user authn.User) class {
	switch {
	case slices.Contains(user.Groups, authn.GroupMasters), isProbe(a):
		return exempt
	case slices.Contains(user.Groups, authn.GroupNodes):
		return node
	case !isPlaneOwn(user):
		return ordinary
	case a.Group == "coordination.k8s.io" && a.Resource == "leases" && slices.Contains([]string{"get", "create", "update", "patch"}, a.Verb):
		return leader
	}
	return planeOwn
}

func isPlaneOwn(user authn.User) bool {
	return user.Name == "system:kube-controller-manager" || user.Name == "system:kube-scheduler" ||
		strings.HasPrefix(user.Name, authn.ServiceAccountUser+metav1.NamespaceSystem+":")
}

func isProbe(a authz.Attributes) bool {
	return !a.IsResource() && a.Verb == "get" && slices.Contains([]string{"/healthz", "/livez", "/readyz"}, a.Path)
}

func isRead(a authz.Attributes) bool {
	return a.Verb == "get" || a.Verb == "list" || a.Verb == "watch" || a.Verb == "head"
}
