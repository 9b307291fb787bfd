package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/services/apiserver/internal/storage/etcd"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func connect(t *testing.T, servers ...string) *etcd.Connection {
	t.Helper()
	return connectWith(t, etcd.Config{Servers: servers})
}

func connectWith(t *testing.T, cfg etcd.Config) *etcd.Connection {
	t.Helper()
	cfg.Prefix = "/registry/"
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c, err := etcd.Connect(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestRevisionAndSize(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	c := connect(t, server.Endpoints()...)
	want := server.Put(t, map[string]string{"/elsewhere": "1"})
	if got, err := c.Revision(t.Context()); err != nil || got != want {
		t.Errorf("revision %d, %v; want %d", got, err, want)
	}
	if size := c.Size(); size < 4096 {
		t.Errorf("the database has %v bytes", size)
	}
	server.Stop(t)
	if size := c.Size(); !math.IsNaN(size) {
		t.Errorf("the database of a stopped server has %v bytes", size)
	}
}

// TestStatus checks the report of a server that answers, one that does not, and one with an alarm.
func TestStatus(t *testing.T) {
	t.Parallel()
	server, dead := etcdtest.StartSmall(t, 8<<20), etcdtest.Start(t)
	c := connect(t, append(server.Endpoints(), dead.Endpoints()...)...)
	dead.Stop(t)
	server.Fill(t)
	revision, err := c.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := c.Status(t.Context())
	if found.Fault != "" || found.Revision != revision || len(found.Members) != 2 {
		t.Fatalf("the report is %+v, want revision %d of two members", found, revision)
	}
	live, other := found.Members[0], found.Members[1]
	if live.ID == "" || live.Name == "" || !live.Leader || live.Fault != "" || live.Size == 0 || live.Quota != 8<<20 || !strings.HasPrefix(live.Version, "3.") {
		t.Errorf("the live member is %+v", live)
	}
	if other.Endpoint != dead.Endpoints()[0] || other.Fault == "" || other.Leader {
		t.Errorf("the dead member is %+v", other)
	}
	if len(found.Alarms) != 1 || found.Alarms[0].Member != live.Name || found.Alarms[0].Alarm != "NOSPACE" {
		t.Errorf("the alarms are %+v", found.Alarms)
	}
}

func TestFaultyFiles(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, cfg := range map[string]etcd.Config{
		"reading etcd's CA: open /none":                         {CAFile: "/none"},
		"reading etcd's CA: " + empty + " contains no":          {CAFile: empty},
		"reading the certificate for etcd: open /none":          {CertFile: "/none", KeyFile: empty},
		"reading the certificate for etcd: tls: failed to find": {CertFile: empty, KeyFile: empty},
	} {
		cfg.Servers, cfg.Logger = []string{"https://127.0.0.1:1"}, slog.New(slog.DiscardHandler)
		if _, err := etcd.Connect(cfg); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
}

// TestAPIError checks what clients of the API see of etcd's errors, and that the cause stays known.
func TestAPIError(t *testing.T) {
	own := apierrors.NewBadRequest("own")
	other := errors.New("other")
	for _, tt := range []struct {
		err  error
		code int32 // 0 if it stays as it is
		// retry is Retry-After.
		retry int32
	}{
		{nil, 0, 0},
		{own, 0, 0},
		{other, 0, 0},
		{context.Canceled, 0, 0},
		{rpctypes.ErrCompacted, 0, 0},
		{context.DeadlineExceeded, 504, etcd.RetrySeconds},
		{status.Error(codes.DeadlineExceeded, "late"), 504, etcd.RetrySeconds},
		{status.Error(codes.Unavailable, "away"), 503, 0},
		{rpctypes.ErrNoLeader, 503, 0},
		{rpctypes.ErrLeaderChanged, 503, 0},
		{rpctypes.ErrNoSpace, 500, 0},
		{rpctypes.ErrRequestTooLarge, 500, 0},
		{status.Error(codes.ResourceExhausted, "trying to send message larger than max (2097231 vs. 2097152)"), 500, 0},
		{status.Error(codes.ResourceExhausted, "many watches"), 0, 0},
	} {
		got := etcd.APIError(tt.err)
		if tt.code == 0 {
			if got != tt.err { //nolint:errorlint // the very same error is wanted
				t.Errorf("%v became %v", tt.err, got)
			}
			continue
		}
		var found apierrors.APIStatus
		if !errors.As(got, &found) || found.Status().Code != tt.code {
			t.Errorf("%v became %v, want code %d", tt.err, got, tt.code)
			continue
		}
		if details := found.Status().Details; details != nil && details.RetryAfterSeconds != tt.retry || details == nil && tt.retry != 0 {
			t.Errorf("%v: the details are %+v, want a retry after %d s", tt.err, details, tt.retry)
		}
		if !errors.Is(got, tt.err) {
			t.Errorf("%v became %v, without its cause", tt.err, got)
		}
	}
}

// TestTooLarge checks that both errors of writes that are too large are known, also wrapped, and tell what
// Kubernetes tells.
func TestTooLarge(t *testing.T) {
	const own = "trying to send message larger than max (2097231 vs. 2097152)"
	for _, tt := range []struct {
		err  error
		want string // the beginning of the message; empty if it is another error
	}{
		{rpctypes.ErrRequestTooLarge, "etcdserver: request is too large: the object"},
		{fmt.Errorf("creating: %w", rpctypes.ErrRequestTooLarge), "etcdserver: request is too large: the object"},
		{status.Error(codes.ResourceExhausted, own), "rpc error: code = ResourceExhausted desc = " + own + ": the object"},
		{fmt.Errorf("creating: %w", status.Error(codes.ResourceExhausted, own)), "rpc error: code = ResourceExhausted desc = " + own + ": the object"},
		{status.Error(codes.ResourceExhausted, "many watches"), ""},
		{status.Error(codes.Internal, own), ""},
		{rpctypes.ErrNoSpace, ""},
		{nil, ""},
	} {
		if etcd.IsTooLarge(tt.err) != (tt.want != "") {
			t.Errorf("%v is too large: %v", tt.err, tt.want == "")
		}
		if tt.want == "" {
			continue
		}
		got := etcd.APIError(tt.err)
		var found apierrors.APIStatus
		if !errors.As(got, &found) || !strings.HasPrefix(found.Status().Message, tt.want) || found.Status().Reason != "" || !etcd.IsTooLarge(got) {
			t.Errorf("%v became %v", tt.err, got)
		}
	}
}

func TestAnswered(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	c := connect(t, server.Endpoints()...)
	server.Put(t, map[string]string{"/a": "1"})
	resp, err := c.Client.Txn(t.Context()).Then(clientv3.OpGet("/a"), clientv3.OpGet("/none")).Commit()
	if err != nil {
		t.Fatal(err)
	}
	if kv := etcd.Answered(resp, 0); kv == nil || string(kv.Value) != "1" {
		t.Errorf("the first part holds %v", kv)
	}
	for _, part := range []int{1, 2} {
		if kv := etcd.Answered(resp, part); kv != nil {
			t.Errorf("part %d holds %v", part, kv)
		}
	}
}
