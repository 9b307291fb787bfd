package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/garboard/garboard/cmd/internal/flags"
	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/services/apiserver"
)

// apiFlags are the flags of the apiserver alone.
func apiFlags(set *pflag.FlagSet, cfg *apiserver.Config) {
	for _, group := range []struct {
		name    string
		declare func(*pflag.FlagSet, *apiserver.Config)
	}{
		{"Serving", servingFlags}, {"Authentication", accessFlags}, {"Etcd", etcdFlags}, {flags.BusGroup, busFlags}, {"Watch", watchFlags},
		{"Admission", admissionFlags}, {"Request", requestFlags}, {"Audit", auditFlags},
	} {
		daemon.Group(set, group.name, func(set *pflag.FlagSet) { group.declare(set, cfg) })
	}
}

func servingFlags(set *pflag.FlagSet, cfg *apiserver.Config) {
	set.StringVar(&cfg.Listen, "listen", "0.0.0.0:6443", "address of the API, HOST:PORT")
	set.StringVar(&cfg.AdvertiseAddress, "advertise-address", "", "IP address by which pods reach this server, an endpoint of the kubernetes Service; found from --listen when empty")
	set.StringSliceVar(&cfg.Hosts, "hosts", nil, "further names and addresses by which clients reach the server, for the certificate in --cert-dir")
	set.StringVar(&cfg.CertDir, "cert-dir", "/var/lib/garboard/pki", "folder of certificates, keys and tokens; what is missing is made at the first start")
	set.StringVar(&cfg.TLSCertFile, "tls-cert-file", "", "PEM file of the serving certificate, read again when it changes; then --cert-dir is only read, and needs no key of the authority. One in --cert-dir when empty")
	set.StringVar(&cfg.TLSKeyFile, "tls-private-key-file", "", "PEM file of that certificate's key")
	set.StringVar(&cfg.ServiceCIDR, "service-cluster-ip-range", apiserver.DefaultServiceCIDR, "range of service addresses, or two of different IP families with a comma between")
	set.DurationVar(&cfg.ShutdownDelay, "shutdown-delay-duration", 0, "for how long, when told to end, requests are still taken while /readyz says no")
	set.DurationVar(&cfg.ShutdownWatchGrace, "shutdown-watch-termination-grace-period", 5*time.Second, "over how long the watches are ended then, one after the other")
	set.BoolVar(&cfg.Profiling, "profiling", true, "serve Go's profiles at /debug/pprof/ to those who may read that path")
}

func etcdFlags(set *pflag.FlagSet, cfg *apiserver.Config) {
	set.StringSliceVar(&cfg.EtcdServers, "etcd-servers", []string{"http://127.0.0.1:2379"}, "etcd's client URLs")
	set.StringSliceVar(&cfg.EtcdServersOverrides, "etcd-servers-overrides", nil, "etcd clusters of single resources, separated by commas: GROUP/RESOURCE#SERVERS, servers being URLs separated by semicolons; for example /events#https://127.0.0.1:4002")
	set.StringVar(&cfg.EtcdPrefix, "etcd-prefix", apiserver.DefaultEtcdPrefix, "key below which all objects are")
	set.StringVar(&cfg.EtcdCAFile, "etcd-cafile", "", "PEM file of the authority that etcd is certified by")
	set.StringVar(&cfg.EtcdCertFile, "etcd-certfile", "", "PEM file of the client certificate for etcd")
	set.StringVar(&cfg.EtcdKeyFile, "etcd-keyfile", "", "PEM file of that certificate's key")
	set.DurationVar(&cfg.EtcdCompactionInterval, "etcd-compaction-interval", apiserver.DefaultEtcdCompactionInterval, "for how long etcd keeps what is no more; 0 leaves its compaction to others")
	set.DurationVar(&cfg.EventTTL, "event-ttl", apiserver.DefaultEventTTL, "how long events are kept")
}

func busFlags(set *pflag.FlagSet, cfg *apiserver.Config) {
	unless(set, &cfg.OpenBus, "bus-auth", "have NATS ask the apiservers who its clients are and what they may do; without it whoever reaches NATS reads everything and may forge watch messages")
	set.DurationVar(&cfg.BusLife, "bus-connection-life", apiserver.DefaultBusLife, "how long a client's connection to NATS lasts before it has to come again, and with it a right that was withdrawn")
	set.IntVar(&cfg.Log.Replicas, "nats-log-replicas", apiserver.DefaultLogReplicas, "how many NATS servers keep the log of watch messages, which readers of history read; more than 1 needs a cluster of NATS")
	set.DurationVar(&cfg.Log.MaxAge, "nats-log-max-age", apiserver.DefaultLogMaxAge, "how long that log keeps a message")
	set.Int64Var(&cfg.Log.MaxBytes, "nats-log-max-bytes", apiserver.DefaultLogMaxBytes, "how many bytes that log has at most, for each etcd cluster; the oldest messages go first")
}

func watchFlags(set *pflag.FlagSet, cfg *apiserver.Config) {
	set.IntVar(&cfg.Window.Events, "watch-window-events", apiserver.DefaultWindowEvents, "how many changes of each resource are remembered, so that informers and watches that were away read only what they missed")
	set.IntVar(&cfg.Window.Bytes, "watch-window-bytes", apiserver.DefaultWindowBytes, "how many bytes the remembered changes of each resource have at most")
}

func admissionFlags(set *pflag.FlagSet, cfg *apiserver.Config) {
	set.StringSliceVar(&cfg.EnableAdmissionPlugins, "enable-admission-plugins", nil, "admission plugins that run beside those that do by default: "+strings.Join(apiserver.AdmissionPlugins(), ", "))
	set.StringSliceVar(&cfg.DisableAdmissionPlugins, "disable-admission-plugins", nil, "admission plugins that do not run although they do by default")
}

// adminKubeconfig is the administrator's kubeconfig, written when the server is ready.
type adminKubeconfig struct{ path, server string }

func (k *adminKubeconfig) flags(set *pflag.FlagSet) {
	daemon.Group(set, "Administrator", func(set *pflag.FlagSet) {
		set.StringVar(&k.path, "write-kubeconfig", "", "file to write the administrator's kubeconfig to; none when empty")
		set.StringVar(&k.server, "advertise-url", "", "URL of the API in that kubeconfig; https:// and the listening address when empty")
	})
}

// probe says where the server tells whether it is ready.
func probe(cfg *apiserver.Config) daemon.Probe {
	own := cfg.TLSCertFile
	if own == "" {
		own, _ = apiserver.ServingFiles(cfg.CertDir)
	}
	authority, _ := apiserver.SigningFiles(cfg.CertDir)
	return daemon.Probe{Address: cfg.Listen, TLS: true, CAFile: authority, CertFile: own}
}

func (k *adminKubeconfig) after(ready func(context.Context) error, cfg apiserver.Config) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := ready(ctx); err != nil || k.path == "" {
			return err
		}
		server := k.server
		if server == "" {
			server = "https://" + cfg.Listen
		}
		kubeconfig, err := apiserver.Kubeconfig(cfg.CertDir, server)
		if err != nil {
			return err
		}
		if err := os.WriteFile(k.path, kubeconfig, 0o600); err != nil {
			return fmt.Errorf("writing the administrator's kubeconfig: %w; choose another file with --write-kubeconfig", err)
		}
		return nil
	}
}
