// Package deployment fills a folder with the credentials by which the programs of a control plane
// on several machines or in several containers know each other, one folder for each of them:
//
//	ca/          the authorities and their keys, which no program needs
//	apiserver/   --cert-dir of the apiservers, their serving certificate, and those that they
//	             present to etcd, to NATS, and to other API servers as a front proxy
//	controllers/ kubeconfig, the authority with its key, which signs node certificates, and the key
//	             that signs the service account tokens in Secrets
//	scheduler/   kubeconfig
//	nodeagent/   bootstrap-kubeconfig, with which a node gets a certificate of its own
//	etcd/        server, peer and client certificates of an authority of etcd's own
//	nats/        server certificate, the public keys of the apiservers, and the certificate by which
//	             the servers of a cluster know each other, of an authority of their own
//	admin/       the administrator's kubeconfig, and the bootstrap token
//	gateway/     the authority's certificate
//	prometheus/  a client certificate that may read metrics and health, and nothing else
//
// It may run again at any time: it keeps what is valid, creates what is missing, reissues what
// expires within 30 days, and never replaces an authority.
package deployment

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/garboard/garboard/libs/pki"
)

// Defaults of Config.
const (
	DefaultServer      = "https://apiserver:6443"
	DefaultAdminServer = "https://127.0.0.1:6443"
	DefaultServiceCIDR = "10.96.0.0/12"
)

// Config configures Fill.
type Config struct {
	// Dir is the folder; Fill creates it if it is missing.
	Dir string
	// Owners are the owners of the files by folder; the key "" is for folders that are not named.
	// Files of folders without an owner belong to this process's user.
	Owners map[string]pki.Owner
	// APIServerHosts, EtcdHosts and NATSHosts are additional names and addresses of these servers.
	APIServerHosts, EtcdHosts, NATSHosts []string
	// Server is the URL of the API in the services' kubeconfigs, AdminServer that in the
	// administrator's; empty means DefaultServer and DefaultAdminServer.
	Server, AdminServer string
	// ServiceCIDR is the range of service addresses, or two separated by a comma, as configured for
	// the apiservers; empty means DefaultServiceCIDR.
	ServiceCIDR string
	// Report is called with the outcome for each file; may be nil.
	Report func(File)
}

// File is a file that Fill checked.
type File struct {
	// Path is relative to Config.Dir.
	Path string
	// Outcome is what happened to the file.
	Outcome pki.Outcome
	// Mended means that the file was kept, but its owner or permissions were corrected.
	Mended bool
	// End is when the certificate in the file expires; zero if it holds none.
	End time.Time
}

// String returns a one-line description for people.
func (f File) String() string {
	what := f.Outcome.String()
	if f.Mended {
		what = "mended"
	}
	line := fmt.Sprintf("%-8s%s", what, f.Path)
	if f.End.IsZero() {
		return line
	}
	return fmt.Sprintf("%-48suntil %s", line, f.End.UTC().Format(time.DateOnly))
}

// Folders returns the names of all folders.
func Folders() []string {
	return []string{caDir, apiserverDir, controllersDir, schedulerDir, nodeagentDir, etcdDir, natsDir, adminDir, gatewayDir, prometheusDir}
}

const (
	caDir          = "ca"
	apiserverDir   = "apiserver"
	controllersDir = "controllers"
	schedulerDir   = "scheduler"
	nodeagentDir   = "nodeagent"
	etcdDir        = "etcd"
	natsDir        = "nats"
	adminDir       = "admin"
	gatewayDir     = "gateway"
	prometheusDir  = "prometheus"
)

// complete fills in defaults and reports everything that is wrong, by flag.
func (c Config) complete() (Config, error) {
	var errs []error
	if c.Dir == "" {
		errs = append(errs, errors.New("--out must name a folder"))
	}
	for folder, owner := range c.Owners {
		if folder != "" && !slices.Contains(Folders(), folder) {
			errs = append(errs, fmt.Errorf("--owner: there is no folder %q; the folders are %s", folder, strings.Join(Folders(), ", ")))
		}
		if owner.UID < 0 || owner.GID < 0 {
			errs = append(errs, fmt.Errorf("--owner: %d:%d is not a user and group ID", owner.UID, owner.GID))
		}
	}
	for flag, hosts := range map[string][]string{"--apiserver-hosts": c.APIServerHosts, "--etcd-hosts": c.EtcdHosts, "--nats-hosts": c.NATSHosts} {
		for _, host := range hosts {
			if err := checkHost(host); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", flag, err))
			}
		}
	}
	if c.Server == "" {
		c.Server = DefaultServer
	}
	if c.AdminServer == "" {
		c.AdminServer = DefaultAdminServer
	}
	for flag, server := range map[string]string{"--server": c.Server, "--admin-server": c.AdminServer} {
		if parsed, err := url.Parse(server); err != nil || parsed.Scheme != "https" || parsed.Hostname() == "" ||
			parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" {
			errs = append(errs, fmt.Errorf("%s %q: want https://HOST:PORT", flag, server))
		}
	}
	if c.ServiceCIDR == "" {
		c.ServiceCIDR = DefaultServiceCIDR
	}
	if _, err := c.serviceAddresses(); err != nil {
		errs = append(errs, err)
	}
	if c.Report == nil {
		c.Report = func(File) {}
	}
	return c, errors.Join(errs...)
}

// serviceAddresses returns the addresses of the Service kubernetes: the first of each range.
func (c Config) serviceAddresses() ([]string, error) {
	var addresses []string
	for text := range strings.SplitSeq(c.ServiceCIDR, ",") {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("--service-cluster-ip-range %q: %w; want a range such as %s", c.ServiceCIDR, err, DefaultServiceCIDR)
		}
		addresses = append(addresses, prefix.Masked().Addr().Next().String())
	}
	return addresses, nil
}

// checkHost returns an error if host is not valid as a name or address in a certificate.
func checkHost(host string) error {
	if net.ParseIP(host) != nil {
		return nil
	}
	name := strings.TrimPrefix(host, "*.")
	if problems := validation.IsDNS1123Subdomain(strings.ToLower(name)); len(problems) > 0 {
		return fmt.Errorf("%q is neither an IP address nor a DNS name: write it without a scheme or a port", host)
	}
	return nil
}

// Fill creates what is missing. If it fails, the files created so far stay, and the next run
// continues from there.
func Fill(cfg Config) error {
	cfg, err := cfg.complete()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(cfg.Dir, caDir), 0o755); err != nil {
		return fmt.Errorf("creating the folder: %w", err)
	}
	unlock, err := lock(filepath.Join(cfg.Dir, caDir, ".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	f := &filler{cfg: cfg}
	if err := f.orphans(); err != nil {
		return err
	}
	for _, folder := range Folders() {
		if err := f.folder(folder); err != nil {
			return err
		}
	}
	return f.fill()
}

// orphans refuses to create a new authority while programs still have the previous one: none of
// them would trust the others any more.
func (f *filler) orphans() error {
	for _, name := range []string{caFile, etcdCAFile, routesCAFile, pki.FrontProxyCAFile} {
		own := f.path(caDir, name)
		if _, err := os.Stat(own); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		for _, folder := range Folders() {
			if copied := f.path(folder, name); folder != caDir && exists(copied) {
				return fmt.Errorf("%s is missing, though there is %s; restore the folder %s from a backup, or remove all folders to begin with a new authority", own, copied, f.path(caDir))
			}
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// lock keeps other processes from filling the folder meanwhile, since they would create other
// authorities.
func lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the folder: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another program is filling the folder (it holds %s); retry when it has ended", path)
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return func() { _ = file.Close() }, nil
}

// filler fills the folder.
type filler struct {
	cfg Config
	// api, etcd and routes sign the certificates of the plane, of etcd, and of the NATS servers
	// among themselves; proxies those of front proxies.
	api, etcd, routes, proxies *pki.Authority
}

func (f *filler) path(parts ...string) string {
	return filepath.Join(append([]string{f.cfg.Dir}, parts...)...)
}

// owner returns the owner of a folder's files; nil means this process's user.
func (f *filler) owner(folder string) *pki.Owner {
	for _, name := range []string{folder, ""} {
		if owner, ok := f.cfg.Owners[name]; ok {
			return &owner
		}
	}
	return nil
}

// files returns how a folder's files are written.
func (f *filler) files(folder string) pki.Files {
	return pki.Files{Owner: f.owner(folder), PublicMode: 0o644}
}

// folder creates a folder that only its owner may open.
func (f *filler) folder(name string) error {
	path := f.path(name)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("creating the folder of the %s: %w", name, err)
	}
	_, err := f.mend(path, name, 0o700)
	return err
}

// mend corrects a file's owner and permissions, and reports whether it changed any.
func (f *filler) mend(path, folder string, mode fs.FileMode) (mended bool, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return false, fmt.Errorf("checking %s: %w", path, err)
	}
	owner := f.owner(folder)
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && owner != nil && (int(stat.Uid) != owner.UID || int(stat.Gid) != owner.GID) {
		if err := os.Chown(path, owner.UID, owner.GID); err != nil {
			return false, fmt.Errorf("setting a file's --owner: %w", err)
		}
		mended = true
	}
	if info.Mode().Perm() != mode {
		if err := os.Chmod(path, mode); err != nil {
			return false, fmt.Errorf("setting a file's permissions: %w", err)
		}
		mended = true
	}
	return mended, nil
}

// done reports a file after checking its owner and permissions.
func (f *filler) done(folder, name string, outcome pki.Outcome, end time.Time, secrecy pki.Secrecy) error {
	mended, err := f.mend(f.path(folder, name), folder, f.files(folder).Mode(secrecy))
	if err != nil {
		return err
	}
	f.cfg.Report(File{Path: filepath.Join(folder, name), Outcome: outcome, Mended: mended && outcome == pki.Kept, End: end})
	return nil
}
