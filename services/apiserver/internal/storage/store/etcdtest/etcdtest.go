// Package etcdtest runs etcd inside a test process and performs operations that only tests need:
// writing several keys at once, deleting by prefix, compacting.
package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
)

const startTimeout = 60 * time.Second

// Server is an etcd server in this process.
type Server struct {
	dir    string
	port   string
	quota  int64 // database size limit in bytes; etcd's default if 0
	etcd   *embed.Etcd
	client *clientv3.Client
}

// New starts an etcd for the duration of the test and returns its client URLs.
func New(t testing.TB) []string {
	t.Helper()
	return Start(t).Endpoints()
}

// Start starts an etcd for the duration of the test.
func Start(t testing.TB) *Server {
	t.Helper()
	return StartSmall(t, 0)
}

// StartSmall is like Start, with a database limit of quota bytes.
func StartSmall(t testing.TB, quota int64) *Server {
	t.Helper()
	// Not t.TempDir: etcd may still be removing files of its own when the test ends.
	dir, err := os.MkdirTemp("", "etcdtest") //nolint:usetesting // For the reason above.
	if err != nil {
		t.Fatalf("making etcd's directory: %v", err)
	}
	s := &Server{dir: dir, port: "0", quota: quota}
	s.start(t)
	t.Cleanup(func() {
		s.Stop(t)
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("removing etcd's directory: %v", err)
		}
	})
	return s
}

func (s *Server) start(t testing.TB) {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir = s.dir
	cfg.LogLevel = "panic"
	cfg.LogOutputs = []string{os.DevNull}
	cfg.UnsafeNoFsync = true
	cfg.QuotaBackendBytes = s.quota
	local := url.URL{Scheme: "http", Host: "127.0.0.1:" + s.port}
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{local}, []url.URL{local}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	etcd, err := embed.StartEtcd(cfg)
	// While etcd was stopped, its port was free for any process on the machine, such as another
	// test.
	for end := time.After(startTimeout); errors.Is(err, syscall.EADDRINUSE); etcd, err = embed.StartEtcd(cfg) {
		select {
		case <-end:
			t.Fatalf("starting etcd: %v", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
	if err != nil {
		t.Fatalf("starting etcd: %v", err)
	}
	select {
	case <-etcd.Server.ReadyNotify():
	case err := <-etcd.Err():
		t.Fatalf("starting etcd: %v", err)
	case <-time.After(startTimeout):
		etcd.Close()
		t.Fatal("starting etcd: not ready in time")
	}
	s.etcd = etcd
	if _, s.port, err = net.SplitHostPort(etcd.Clients[0].Addr().String()); err != nil {
		t.Fatalf("starting etcd: %v", err)
	}
	s.client, err = clientv3.New(clientv3.Config{Endpoints: s.Endpoints()})
	if err != nil {
		t.Fatalf("connecting to etcd: %v", err)
	}
}

// Stop stops the server and keeps its data. Restart starts it again.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if s.etcd == nil {
		return
	}
	if err := s.client.Close(); err != nil {
		t.Errorf("closing the connection to etcd: %v", err)
	}
	s.etcd.Close()
	<-s.etcd.Server.StopNotify()
	s.etcd = nil
}

// Restart stops the server and starts it again on the same data and port.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Stop(t)
	s.start(t)
}

// Save stops the server, copies its data and starts it again.
func (s *Server) Save(t testing.TB) (copied string) {
	t.Helper()
	s.Stop(t)
	copied = filepath.Join(t.TempDir(), "etcd")
	if err := os.CopyFS(copied, os.DirFS(s.dir)); err != nil {
		t.Fatalf("copying etcd's data: %v", err)
	}
	s.start(t)
	return copied
}

// SetBack stops the server and replaces its data with saved data. It then lets change (unless nil)
// write to it on a hidden address, and starts it at its own address.
func (s *Server) SetBack(t testing.TB, copied string, change func(hidden *Server)) {
	t.Helper()
	s.Stop(t)
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatalf("removing etcd's data: %v", err)
	}
	if err := os.CopyFS(s.dir, os.DirFS(copied)); err != nil {
		t.Fatalf("copying etcd's data: %v", err)
	}
	if change != nil {
		hidden := &Server{dir: s.dir, port: "0"}
		hidden.start(t)
		change(hidden)
		hidden.Stop(t)
	}
	s.start(t)
}

// Endpoints returns the client URLs.
func (s *Server) Endpoints() []string { return []string{"http://127.0.0.1:" + s.port} }

// Put writes several keys in one revision, which it returns. An empty value deletes the key.
func (s *Server) Put(t testing.TB, values map[string]string) int64 {
	t.Helper()
	var ops []clientv3.Op
	for key, value := range values {
		if value == "" {
			ops = append(ops, clientv3.OpDelete(key))
		} else {
			ops = append(ops, clientv3.OpPut(key, value))
		}
	}
	resp, err := s.client.Txn(t.Context()).Then(ops...).Commit()
	if err != nil {
		t.Fatalf("writing to etcd: %v", err)
	}
	return resp.Header.Revision
}

// DeletePrefix deletes all keys that begin with prefix, in one revision, which it returns.
func (s *Server) DeletePrefix(t testing.TB, prefix string) int64 {
	t.Helper()
	resp, err := s.client.Delete(t.Context(), prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatalf("deleting %s: %v", prefix, err)
	}
	return resp.Header.Revision
}

// Compact compacts etcd to revision.
func (s *Server) Compact(t testing.TB, revision int64) {
	t.Helper()
	if _, err := s.client.Compact(t.Context(), revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatalf("compacting etcd: %v", err)
	}
}

// Values returns everything that etcd holds below prefix.
func (s *Server) Values(t testing.TB, prefix string) map[string]string {
	t.Helper()
	resp, err := s.client.Get(t.Context(), prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatalf("reading %s: %v", prefix, err)
	}
	values := map[string]string{}
	for _, kv := range resp.Kvs {
		values[string(kv.Key)] = string(kv.Value)
	}
	return values
}

// Lease returns the TTL in seconds that etcd granted for the lease of a key, and the number of keys
// on that lease; 0, 0 if the key has none.
func (s *Server) Lease(t testing.TB, key string) (granted int64, keys int) {
	t.Helper()
	resp, err := s.client.Get(t.Context(), key)
	if err != nil {
		t.Fatalf("reading %s: %v", key, err)
	}
	if len(resp.Kvs) == 0 || resp.Kvs[0].Lease == 0 {
		return 0, 0
	}
	found, err := s.client.TimeToLive(t.Context(), clientv3.LeaseID(resp.Kvs[0].Lease), clientv3.WithAttachedKeys())
	if err != nil {
		t.Fatalf("reading the lease of %s: %v", key, err)
	}
	return found.GrantedTTL, len(found.Keys)
}

// Revoke revokes the lease of a key and thereby deletes all keys on it.
func (s *Server) Revoke(t testing.TB, key string) {
	t.Helper()
	resp, err := s.client.Get(t.Context(), key)
	if err != nil || len(resp.Kvs) == 0 {
		t.Fatalf("reading %s: %d keys, %v", key, len(resp.Kvs), err)
	}
	if _, err := s.client.Revoke(context.WithoutCancel(t.Context()), clientv3.LeaseID(resp.Kvs[0].Lease)); err != nil {
		t.Fatalf("revoking the lease of %s: %v", key, err)
	}
}

// Dead adds a candidate's key to an election, as a killed candidate leaves it: on a lease that
// lasts an hour although no process keeps it alive. It returns the lease.
func (s *Server) Dead(t testing.TB, election, candidate string) (lease int64) {
	t.Helper()
	granted, err := s.client.Grant(t.Context(), 3600)
	if err != nil {
		t.Fatalf("granting a lease: %v", err)
	}
	key := fmt.Sprintf("%s/%x", election, granted.ID)
	if _, err := s.client.Put(t.Context(), key, candidate, clientv3.WithLease(granted.ID)); err != nil {
		t.Fatalf("putting %s: %v", key, err)
	}
	return int64(granted.ID)
}

// KeepAlive keeps a lease alive until the test ends, whichever process owns it.
func (s *Server) KeepAlive(t testing.TB, lease int64) {
	t.Helper()
	kept, err := s.client.KeepAlive(t.Context(), clientv3.LeaseID(lease))
	if err != nil {
		t.Fatalf("keeping a lease: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range kept { //nolint:revive // Draining the channel is all there is to do.
		}
	}()
	t.Cleanup(func() { <-ended })
}

// Lives reports whether a lease has not expired.
func (s *Server) Lives(t testing.TB, lease int64) bool {
	t.Helper()
	left, err := s.client.TimeToLive(t.Context(), clientv3.LeaseID(lease))
	if err != nil {
		t.Fatalf("looking at a lease: %v", err)
	}
	return left.TTL > 0
}

// LeaseOf returns the lease of a key.
func (s *Server) LeaseOf(t testing.TB, key string) (lease int64) {
	t.Helper()
	resp, err := s.client.Get(t.Context(), key)
	if err != nil || len(resp.Kvs) == 0 {
		t.Fatalf("reading %s: %d keys, %v", key, len(resp.Kvs), err)
	}
	return resp.Kvs[0].Lease
}

// Fill writes unused values until etcd refuses them for lack of space.
func (s *Server) Fill(t testing.TB) {
	t.Helper()
	value := strings.Repeat("x", 256<<10)
	for i := range 10_000 {
		_, err := s.client.Put(t.Context(), fmt.Sprintf("/fill/%d", i%4), value)
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return
		}
		if err != nil {
			t.Fatalf("filling etcd: %v", err)
		}
	}
	t.Fatal("etcd accepts every write")
}

// MakeRoom does what an administrator does about a full etcd: it compacts, defragments and disarms
// the alarm.
func (s *Server) MakeRoom(t testing.TB) {
	t.Helper()
	resp, err := s.client.Get(t.Context(), "/fill/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		t.Fatalf("reading etcd's revision: %v", err)
	}
	s.Compact(t, resp.Header.Revision)
	if _, err := s.client.Defragment(t.Context(), s.Endpoints()[0]); err != nil {
		t.Fatalf("defragmenting etcd: %v", err)
	}
	if _, err := s.client.AlarmDisarm(t.Context(), &clientv3.AlarmMember{}); err != nil {
		t.Fatalf("disarming etcd's alarm: %v", err)
	}
}
