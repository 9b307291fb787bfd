package etcdtest

import (
	"net/url"
	"os"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// TLS names the PEM files of an etcd that serves TLS: its certificates for clients and for peers,
// and the CA of both and of the clients, which must present a certificate.
type TLS struct{ CAFile, CertFile, KeyFile, PeerCertFile, PeerKeyFile string }

// StartTLS starts an etcd that serves TLS, for the duration of the test, and returns its client
// URLs.
func StartTLS(t testing.TB, files TLS) []string {
	t.Helper()
	// Not t.TempDir: etcd may still be removing files of its own when the test ends.
	dir, err := os.MkdirTemp("", "etcdtest") //nolint:usetesting // For the reason above.
	if err != nil {
		t.Fatalf("making etcd's directory: %v", err)
	}
	cfg := embed.NewConfig()
	cfg.Dir, cfg.LogLevel, cfg.LogOutputs, cfg.UnsafeNoFsync = dir, "panic", []string{os.DevNull}, true
	local := []url.URL{{Scheme: "https", Host: "127.0.0.1:0"}}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = local, local
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = local, local
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	client, peer := &cfg.ClientTLSInfo, &cfg.PeerTLSInfo
	client.CertFile, client.KeyFile, client.TrustedCAFile, client.ClientCertAuth = files.CertFile, files.KeyFile, files.CAFile, true
	peer.CertFile, peer.KeyFile, peer.TrustedCAFile, peer.ClientCertAuth = files.PeerCertFile, files.PeerKeyFile, files.CAFile, true
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatalf("starting etcd: %v", err)
	}
	t.Cleanup(func() {
		etcd.Close()
		<-etcd.Server.StopNotify()
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("removing etcd's directory: %v", err)
		}
	})
	select {
	case <-etcd.Server.ReadyNotify():
	case err := <-etcd.Err():
		t.Fatalf("starting etcd: %v", err)
	case <-time.After(startTimeout):
		t.Fatal("starting etcd: not ready in time")
	}
	return []string{"https://" + etcd.Clients[0].Addr().String()}
}
