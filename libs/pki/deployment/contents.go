package deployment

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	bootstraputil "k8s.io/cluster-bootstrap/token/util"

	"github.com/garboard/garboard/libs/pki"
)

// Names of files in several folders.
const (
	caFile    = "ca.crt"
	caKeyFile = "ca.key"
	// tokenKeyFile is the key that signs service account tokens.
	tokenKeyFile = "sa.key"
	etcdCAFile   = "etcd-ca.crt"
	// routesCAFile is the CA certificate of the NATS servers among themselves.
	routesCAFile = "routes-ca.crt"
	kubeconfig   = "kubeconfig"
	tokenFile    = "bootstrap-token"
)

// Users of the certificates. Those of the API are Kubernetes' own.
const (
	adminUser      = "kubernetes-admin"
	adminGroup     = "system:masters"
	controllerUser = "system:kube-controller-manager"
	schedulerUser  = "system:kube-scheduler"
	monitoringUser = "system:garboard-monitoring"
	// monitoringGroup may read metrics and health (Kubernetes' ClusterRole of the same name).
	monitoringGroup = "system:monitoring"
)

// fill creates the contents, each after those that it derives from.
func (f *filler) fill() error {
	for _, step := range []func() error{
		f.authorities, f.copies, f.frontProxy, f.apiserver, f.busKeys, f.servers, f.services, f.admin,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (f *filler) authorities() (err error) {
	for _, a := range []struct {
		to              **pki.Authority
		cert, key, name string
	}{
		{&f.api, caFile, caKeyFile, "garboard-ca"},
		{&f.etcd, etcdCAFile, "etcd-ca.key", "garboard-etcd-ca"},
		{&f.routes, routesCAFile, "routes-ca.key", "garboard-nats-routes-ca"},
		{&f.proxies, pki.FrontProxyCAFile, pki.FrontProxyCAKeyFile, pki.FrontProxyAuthority},
	} {
		var outcome pki.Outcome
		if *a.to, outcome, err = pki.OpenAuthority(f.files(caDir), f.path(caDir, a.cert), f.path(caDir, a.key), a.name); err != nil {
			return err
		}
		end := (*a.to).Certificate().NotAfter
		if err := errors.Join(f.done(caDir, a.cert, outcome, end, pki.Public),
			f.done(caDir, a.key, outcome, time.Time{}, pki.Secret)); err != nil {
			return err
		}
	}
	return nil
}

// copies writes the authorities' certificates for all programs that need them, and the key of the
// plane's authority for the controllers, which sign node certificates.
func (f *filler) copies() error {
	for _, folder := range []string{apiserverDir, controllersDir, schedulerDir, nodeagentDir, natsDir, adminDir, gatewayDir, prometheusDir} {
		if err := f.derived(folder, caFile, f.api.PEM(), f.api.Certificate().NotAfter, pki.Public); err != nil {
			return err
		}
	}
	for _, folder := range []string{apiserverDir, etcdDir} {
		if err := f.derived(folder, etcdCAFile, f.etcd.PEM(), f.etcd.Certificate().NotAfter, pki.Public); err != nil {
			return err
		}
	}
	if err := f.derived(natsDir, routesCAFile, f.routes.PEM(), f.routes.Certificate().NotAfter, pki.Public); err != nil {
		return err
	}
	key, err := os.ReadFile(f.path(caDir, caKeyFile))
	if err != nil {
		return fmt.Errorf("reading the authority's key: %w", err)
	}
	return f.derived(controllersDir, caKeyFile, key, time.Time{}, pki.Secret)
}

// frontProxy writes the authority of front proxies for the apiservers, without its key: a client with a
// certificate of it may act in the name of every user.
func (f *filler) frontProxy() error {
	return f.derived(apiserverDir, pki.FrontProxyCAFile, f.proxies.PEM(), f.proxies.Certificate().NotAfter, pki.Public)
}

// apiserver creates the key of service account tokens, with which the controllers sign those in Secrets.
func (f *filler) apiserver() error {
	_, outcome, err := pki.OpenKey(f.files(apiserverDir), f.path(apiserverDir, tokenKeyFile), "all service account tokens end, pods get new ones")
	if err != nil {
		return err
	}
	if err := f.done(apiserverDir, tokenKeyFile, outcome, time.Time{}, pki.Secret); err != nil {
		return err
	}
	key, err := os.ReadFile(f.path(apiserverDir, tokenKeyFile))
	if err != nil {
		return fmt.Errorf("reading the key of service account tokens: %w", err)
	}
	return f.derived(controllersDir, tokenKeyFile, key, time.Time{}, pki.Secret)
}

// busKeys creates the apiservers' keys for NATS, and the configuration that NATS needs.
func (f *filler) busKeys() error {
	var had []bool
	secret := []string{pki.BusIssuerFile, pki.BusUserFile}
	for _, name := range secret {
		had = append(had, exists(f.path(apiserverDir, name)))
	}
	config, err := os.ReadFile(f.path(apiserverDir, pki.BusConfigFile))
	hadConfig := err == nil
	keys, err := pki.OpenBus(f.files(apiserverDir), f.path(apiserverDir))
	if err != nil {
		return err
	}
	for i, name := range secret {
		if err := f.done(apiserverDir, name, made(!had[i]), time.Time{}, pki.Secret); err != nil {
			return err
		}
	}
	outcome := made(!hadConfig)
	if hadConfig && !bytes.Equal(config, keys.Configuration()) {
		outcome = pki.Renewed
	}
	if err := f.done(apiserverDir, pki.BusConfigFile, outcome, time.Time{}, pki.Public); err != nil {
		return err
	}
	return f.derived(natsDir, pki.BusConfigFile, keys.Configuration(), time.Time{}, pki.Public)
}

func made(missing bool) pki.Outcome {
	if missing {
		return pki.Made
	}
	return pki.Kept
}

// servers issues the certificates in files: those that servers present, those that apiservers
// present to etcd, NATS and other API servers, and the one that Prometheus presents to apiservers.
func (f *filler) servers() error {
	addresses, err := f.cfg.serviceAddresses()
	if err != nil {
		return err
	}
	local := []string{"localhost", "127.0.0.1", "::1"}
	api := slices.Concat(local, addresses, f.cfg.APIServerHosts,
		[]string{"apiserver", "gateway", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"})
	etcd := slices.Concat(local, f.cfg.EtcdHosts, []string{"etcd", "etcd-1", "etcd-2", "etcd-3"})
	nats := slices.Concat(local, f.cfg.NATSHosts, []string{"nats", "nats-1", "nats-2", "nats-3"})
	for _, c := range []struct {
		authority    *pki.Authority
		folder, name string
		leaf         pki.Leaf
	}{
		{f.api, apiserverDir, "tls", pki.Leaf{Name: "kube-apiserver", Hosts: api, Use: pki.Server}},
		{f.api, apiserverDir, "nats-client", pki.Leaf{Name: "garboard-apiserver", Use: pki.Client}},
		{f.proxies, apiserverDir, "front-proxy-client", pki.Leaf{Name: pki.FrontProxyUser, Use: pki.Client}},
		{f.api, prometheusDir, "client", pki.Leaf{Name: monitoringUser, Groups: []string{monitoringGroup}, Use: pki.Client}},
		{f.etcd, apiserverDir, "etcd-client", pki.Leaf{Name: "garboard-apiserver", Use: pki.Client}},
		// etcd also presents its server certificate when it calls itself, for its HTTP gateway.
		{f.etcd, etcdDir, "server", pki.Leaf{Name: "etcd", Hosts: etcd, Use: pki.Peer}},
		{f.etcd, etcdDir, "peer", pki.Leaf{Name: "etcd-peer", Hosts: etcd, Use: pki.Peer}},
		{f.etcd, etcdDir, "client", pki.Leaf{Name: "etcd-health", Use: pki.Client}},
		{f.api, natsDir, "server", pki.Leaf{Name: "nats", Hosts: nats, Use: pki.Server}},
		// The plane's authority also signs nodes and users, but a NATS server sees and can send
		// everything.
		{f.routes, natsDir, "route", pki.Leaf{Name: "nats-route", Hosts: nats, Use: pki.Peer}},
	} {
		cert, key := c.name+".crt", c.name+".key"
		pair, outcome, err := c.authority.Open(f.files(c.folder), f.path(c.folder, cert), f.path(c.folder, key), c.leaf)
		if err != nil {
			return err
		}
		err = errors.Join(f.done(c.folder, cert, outcome, pair.Leaf.NotAfter, pki.Public),
			f.done(c.folder, key, outcome, time.Time{}, pki.Secret))
		if err != nil {
			return err
		}
	}
	return nil
}

// services writes the kubeconfigs of the programs that present a certificate to the API.
func (f *filler) services() error {
	for _, c := range []struct {
		folder, server string
		leaf           pki.Leaf
	}{
		{controllersDir, f.cfg.Server, pki.Leaf{Name: controllerUser, Use: pki.Client}},
		{schedulerDir, f.cfg.Server, pki.Leaf{Name: schedulerUser, Use: pki.Client}},
		{adminDir, f.cfg.AdminServer, pki.Leaf{Name: adminUser, Groups: []string{adminGroup}, Use: pki.Client}},
	} {
		if err := f.kubeconfig(c.folder, c.server, c.leaf); err != nil {
			return err
		}
	}
	return nil
}

// kubeconfig writes a kubeconfig and keeps its certificate if that is still good.
func (f *filler) kubeconfig(folder, server string, leaf pki.Leaf) error {
	path := f.path(folder, kubeconfig)
	want := pki.Kubeconfig{Server: server, CA: f.api.PEM()}
	old, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("reading a kubeconfig: %w", err)
	default:
		have, err := pki.ParseKubeconfig(old)
		if err != nil {
			return fmt.Errorf("%s is damaged (%w); remove it to have it created again", path, err)
		}
		if pair, err := have.Pair(); err == nil && f.api.Good(pair.Leaf, leaf) {
			want.Cert, want.Key = have.Cert, have.Key
		}
	}
	if want.Cert == nil {
		if want.Cert, want.Key, err = f.api.Issue(leaf); err != nil {
			return err
		}
	}
	pair, err := want.Pair()
	if err != nil {
		return err
	}
	data, err := want.Encode()
	if err != nil {
		return err
	}
	return f.derived(folder, kubeconfig, data, pair.Leaf.NotAfter, pki.Secret)
}

// admin creates the token with which nodes join, and the kubeconfig that presents it.
func (f *filler) admin() error {
	path := f.path(adminDir, tokenFile)
	data, err := os.ReadFile(path)
	outcome := pki.Kept
	switch {
	case errors.Is(err, fs.ErrNotExist):
		token, err := bootstraputil.GenerateBootstrapToken()
		if err != nil {
			return err
		}
		data, outcome = []byte(token+"\n"), pki.Made
		if err := f.files(adminDir).Write(path, data, pki.Secret); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("reading the bootstrap token: %w", err)
	}
	token := string(bytes.TrimSpace(data))
	if !bootstraputil.IsValidBootstrapToken(token) {
		return fmt.Errorf("%s holds no bootstrap token (six characters, a dot, sixteen characters, each a-z or 0-9); remove it to have another one generated", path)
	}
	if err := f.done(adminDir, tokenFile, outcome, time.Time{}, pki.Secret); err != nil {
		return err
	}
	config, err := pki.Kubeconfig{Server: f.cfg.Server, CA: f.api.PEM(), Token: token}.Encode()
	if err != nil {
		return err
	}
	return f.derived(nodeagentDir, "bootstrap-kubeconfig", config, time.Time{}, pki.Secret)
}

// derived writes a file that derives from others if it is missing or its content differs.
func (f *filler) derived(folder, name string, want []byte, end time.Time, secrecy pki.Secrecy) error {
	path := f.path(folder, name)
	outcome := pki.Renewed
	have, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		outcome = pki.Made
	case err != nil:
		return fmt.Errorf("reading %s: %w", path, err)
	case bytes.Equal(have, want):
		return f.done(folder, name, pki.Kept, end, secrecy)
	}
	if err := f.files(folder).Write(path, want, secrecy); err != nil {
		return err
	}
	return f.done(folder, name, outcome, end, secrecy)
}
