package store_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// TestReconnect checks that an etcd that stays away is retried at intervals that do not keep growing.
func TestReconnect(t *testing.T) {
	t.Parallel()
	tries := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	opened := make(chan error, 1)
	go func() {
		_, err := store.Open(ctx, store.Config{
			Servers: []string{"http://127.0.0.1:1"}, Table: scheme.New(), Logger: slog.New(slog.DiscardHandler),
			DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
				select {
				case tries <- struct{}{}:
				default:
				}
				return nil, errors.New("etcd is away")
			})},
		})
		opened <- err
	}()
	// With gRPC's default back-off the tenth attempt comes after more than a minute and a half,
	// less a fifth for jitter.
	deadline := time.After(time.Minute)
	for n := range 10 {
		select {
		case <-tries:
		case err := <-opened:
			t.Fatalf("after %d tries: %v", n, err)
		case <-deadline:
			t.Fatalf("only %d tries", n)
		}
	}
	cancel()
	if err := <-opened; err == nil {
		t.Error("an etcd that is away was opened")
	}
}
