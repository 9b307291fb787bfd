package bushttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/garboard/garboard/libs/bus/bushttp"
	"github.com/garboard/garboard/libs/bus/bushttp/internal/bushttptest"
)

// TestConnect: the connection outlives the context of the asking, and its end reaches the handler.
func TestConnect(t *testing.T) {
	ended := make(chan error, 1)
	client := bushttptest.Pair(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/here" || r.Header.Get("Authorization") != "Bearer abc" {
			http.Error(w, strings.Repeat("no ", 50_000), http.StatusForbidden)
			return
		}
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", r.Header.Get("Upgrade"))
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, err = io.Copy(conn, conn)
		ended <- errors.Join(err, conn.Close())
	})
	header := http.Header{"Authorization": {"Bearer abc"}}
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := bushttp.Connect(ctx, client.Transport, "http://node/here", "test", header)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if len(header) != 1 {
		t.Errorf("the caller's header is %v", header)
	}
	if _, err := io.WriteString(conn, "echo"); err != nil {
		t.Error(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Error(err)
	}
	if said, err := io.ReadAll(conn); err != nil || string(said) != "echo" {
		t.Errorf("read %q, %v", said, err)
	}
	if err := errors.Join(conn.Close(), bushttptest.Receive(t, ended, "the end of the handler")); err != nil {
		t.Error(err)
	}

	if _, err := bushttp.Connect(ctx, client.Transport, "http://node/here", "test", header); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	var refused *bushttp.RefusedError
	_, err = bushttp.Connect(t.Context(), client.Transport, "http://node/there", "test", nil)
	if !errors.As(err, &refused) || refused.Status != "403 Forbidden" || len(refused.Body) != 64<<10 || !strings.HasPrefix(err.Error(), "it answered 403 Forbidden: no no") {
		t.Errorf("a refusal is %.200v", err)
	}
	if _, err := bushttp.Connect(t.Context(), client.Transport, "http://node\x00", "test", nil); err == nil {
		t.Error("a URL that is none is asked")
	}
}

// TestConnectGivesUp: the end of the asking's context ends a request that is not answered.
func TestConnectGivesUp(t *testing.T) {
	asked, over := make(chan struct{}), make(chan struct{})
	client := bushttptest.Pair(t, func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
		close(over)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if _, err := bushttp.Connect(ctx, client.Transport, "http://node/", "test", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	bushttptest.Receive(t, over, "the end of the handler's context")
}
