package etcd_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/garboard/garboard/services/apiserver/internal/storage/etcd"
)

// TestReconnect checks that an etcd that stays away is retried at intervals that do not keep growing.
func TestReconnect(t *testing.T) {
	t.Parallel()
	tries := make(chan struct{}, 100)
	c := connectWith(t, etcd.Config{
		Servers: []string{"http://127.0.0.1:1"},
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			select {
			case tries <- struct{}{}:
			default:
			}
			return nil, errors.New("etcd is away")
		})},
	})
	ctx, cancel := context.WithCancel(t.Context())
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	reading.Go(func() {
		for ctx.Err() == nil {
			if _, err := c.Revision(ctx); err == nil {
				t.Error("an etcd that is away has answered")
			}
		}
	})
	// With gRPC's default back-off the tenth attempt comes after more than a minute and a half,
	// less a fifth for jitter.
	deadline := time.After(time.Minute)
	for n := range 10 {
		select {
		case <-tries:
		case <-deadline:
			t.Fatalf("only %d tries", n)
		}
	}
}
