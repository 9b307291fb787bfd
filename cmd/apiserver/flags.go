package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/garboard/garboard/cmd/internal/flags"
	"github.com/garboard/garboard/cmd/internal/flags/admission"
	"github.com/garboard/garboard/cmd/internal/flags/enablement"
	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/services/apiserver"
)

// apiFlags declares the flags that only the apiserver has.
func apiFlags(set *pflag.FlagSet, cfg *apiserver.Config) {
	for _, group := range []struct {
		name    string
		declare func(*pflag.FlagSet, *apiserver.Config)
	}{
		{"Serving", servingFlags}, {"Authentication", accessFlags}, {"Front proxy", frontProxyFlags}, {"Etcd", etcdFlags}, {flags.BusGroup, busFlags}, {"Watch", watchFlags},
		{"Request", requestFlags}, {"Audit", auditFlags},
	} {
		daemon.Group(set, group.name, func(set *pflag.FlagSet) { group.declare(set, cfg) })
	}
	admission.Flags(set, &cfg.Admission)
	enablement.Flags(set, &cfg.Enablement)
	absentFlags(set)
}

func servingFlags(set *pflag.FlagSet, cfg *apiserver.Config) {
	set.StringVar(&cfg.Serving.Listen, "listen", "0.0.0.0:6443", "address of the API, HOST:PORT")
	set.StringVar(&cfg.Serving.AdvertiseAddress, "advertise-address", "", "IP address by which pods reach this server, an endpoint of the kubernetes Service; when empty, derived from the listening address")
	set.StringSliceVar(&cfg.Serving.Hosts, "hosts", nil, "additional names and addresses by which clients reach the server, for the certificate in --cert-dir")
	set.StringVar(&cfg.Serving.CertDir, "cert-dir", "/var/lib/garboard/pki", "directory of certificates, keys and tokens; missing files are created at the first start")
	set.StringVar(&cfg.Serving.TLSCertFile, "tls-cert-file", "", "PEM file of the serving certificate, read again when it changes; with it --cert-dir is only read, and needs no CA key. When empty, the certificate in --cert-dir")
	set.StringVar(&cfg.Serving.TLSKeyFile, "tls-private-key-file", "", "PEM file of that certificate's key")
	set.StringVar(&cfg.ServiceCIDR, "service-cluster-ip-range", apiserver.DefaultServiceCIDR, "range of service addresses, or two of different IP families separated by a comma")
	set.BoolVar(&cfg.DNSService, "dns-service", true, "create the Service kube-system/kube-dns at the tenth address of the service addresses, where node agents answer DNS questions; without it pods need name servers of your own (--cluster-dns of the node agents)")
	set.DurationVar(&cfg.Serving.ShutdownDelay, "shutdown-delay-duration", 0, "time, when told to stop, in which requests are still accepted while /readyz already fails")
	set.DurationVar(&cfg.Serving.ShutdownWatchGrace, "shutdown-watch-termination-grace-period", 5*time.Second, "time over which the watches are then ended, one after the other")
	set.BoolVar(&cfg.Profiling, "profiling", true, "serve Go's profiles at /debug/pprof/ to users who may read that path")
}

func etcdFlags(set *pflag.FlagSet, cfg *apiserver.Config) {
	set.StringSliceVar(&cfg.Etcd.Servers, "etcd-servers", []string{"http://127.0.0.1:2379"}, "client URLs of etcd")
	set.StringSliceVar(&cfg.Etcd.ServersOverrides, "etcd-servers-overrides", nil, "etcd clusters for single resources, separated by commas: GROUP/RESOURCE#SERVERS, where SERVERS are URLs separated by semicolons; for example /events#https://127.0.0.1:4002")
	set.StringVar(&cfg.Etcd.Prefix, "etcd-prefix", apiserver.DefaultEtcdPrefix, "prefix of the keys of all objects")
	set.StringVar(&cfg.Etcd.CAFile, "etcd-cafile", "", "PEM file of etcd's CA")
	set.StringVar(&cfg.Etcd.CertFile, "etcd-certfile", "", "PEM file of the client certificate for etcd")
	set.StringVar(&cfg.Etcd.KeyFile, "etcd-keyfile", "", "PEM file of that certificate's key")
	set.DurationVar(&cfg.Etcd.CompactionInterval, "etcd-compaction-interval", apiserver.DefaultEtcdCompactionInterval, "time for which etcd keeps old revisions; 0 leaves compaction to others")
	set.DurationVar(&cfg.Etcd.EventTTL, "event-ttl", apiserver.DefaultEventTTL, "time for which events are kept")
}

func busFlags(set *pflag.FlagSet, cfg *apiserver.Config) {
	unless(set, &cfg.Bus.Open, "bus-auth", "let the apiservers authenticate and authorize the clients of NATS; without it, every client that reaches NATS can read everything and forge watch messages")
	set.DurationVar(&cfg.Bus.Life, "bus-connection-life", apiserver.DefaultBusLife, "maximum lifetime of a client's connection to NATS, and so of a right that was revoked")
	set.DurationVar(&cfg.Bus.NodeLife, "bus-node-connection-life", apiserver.DefaultBusNodeLife, "the same for node agents; sessions of pods may break when such a connection ends")
	set.IntVar(&cfg.Bus.Log.Replicas, "nats-log-replicas", apiserver.DefaultLogReplicas, "replicas of the JetStream log of watch messages, from which history is read; more than 1 needs a NATS cluster")
	set.DurationVar(&cfg.Bus.Log.MaxAge, "nats-log-max-age", apiserver.DefaultLogMaxAge, "time for which that log keeps a message")
	set.Int64Var(&cfg.Bus.Log.MaxBytes, "nats-log-max-bytes", apiserver.DefaultLogMaxBytes, "maximum size of that log in bytes, for each etcd cluster; the oldest messages are dropped first")
}

func watchFlags(set *pflag.FlagSet, cfg *apiserver.Config) {
	set.IntVar(&cfg.Window.Events, "watch-window-events", apiserver.DefaultWindowEvents, "number of changes remembered for each resource, so that informers and watches that were disconnected read only what they missed")
	set.IntVar(&cfg.Window.Bytes, "watch-window-bytes", apiserver.DefaultWindowBytes, "maximum size in bytes of the remembered changes of each resource")
}

// adminKubeconfig is the administrator's kubeconfig, written when the server is ready.
type adminKubeconfig struct{ path, server string }

func (k *adminKubeconfig) flags(set *pflag.FlagSet) {
	daemon.Group(set, "Administrator", func(set *pflag.FlagSet) {
		set.StringVar(&k.path, "write-kubeconfig", "", "file to write the administrator's kubeconfig to; when empty, none")
		set.StringVar(&k.server, "advertise-url", "", "URL of the API in that kubeconfig; when empty, https:// and the listening address")
	})
}

// probe returns where the server reports whether it is ready.
func probe(cfg *apiserver.Config) daemon.Probe {
	own := cfg.Serving.TLSCertFile
	if own == "" {
		own, _ = apiserver.ServingFiles(cfg.Serving.CertDir)
	}
	authority, _ := apiserver.SigningFiles(cfg.Serving.CertDir)
	return daemon.Probe{Address: cfg.Serving.Listen, TLS: true, CAFile: authority, CertFile: own}
}

func (k *adminKubeconfig) after(ready func(context.Context) error, cfg apiserver.Config) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := ready(ctx); err != nil || k.path == "" {
			return err
		}
		server := k.server
		if server == "" {
			server = "https://" + cfg.Serving.Listen
		}
		kubeconfig, err := apiserver.Kubeconfig(cfg.Serving.CertDir, server)
		if err != nil {
			return err
		}
		if err := os.WriteFile(k.path, kubeconfig, 0o600); err != nil {
			return fmt.Errorf("writing the administrator's kubeconfig: %w; choose another file with --write-kubeconfig", err)
		}
		return nil
	}
}
