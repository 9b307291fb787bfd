package etcdtest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// Guard records every request that changes etcd without a transaction that compares something.
type Guard struct {
	mu           sync.Mutex
	transactions int
	unguarded    []string
}

// Intercept is a gRPC interceptor for the client whose requests are recorded.
func (g *Guard) Intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	g.mu.Lock()
	switch r := req.(type) {
	case *etcdserverpb.PutRequest:
		g.unguarded = append(g.unguarded, fmt.Sprintf("put %s", r.Key))
	case *etcdserverpb.DeleteRangeRequest:
		g.unguarded = append(g.unguarded, fmt.Sprintf("delete %s", r.Key))
	case *etcdserverpb.TxnRequest:
		g.transactions++
		if len(r.Compare) == 0 || slices.ContainsFunc(r.Failure, writes) {
			g.unguarded = append(g.unguarded, r.String())
		}
	}
	g.mu.Unlock()
	return invoke(ctx, method, req, reply, cc, opts...)
}

func writes(op *etcdserverpb.RequestOp) bool { return op.GetRequestRange() == nil }

// Check fails t if a request changed etcd without a comparison, or if fewer transactions than atLeast
// were seen.
func (g *Guard) Check(t testing.TB, atLeast int) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.transactions < atLeast {
		t.Errorf("only %d transactions were seen, want at least %d", g.transactions, atLeast)
	}
	for _, request := range g.unguarded {
		t.Errorf("not guarded: %s", request)
	}
}
