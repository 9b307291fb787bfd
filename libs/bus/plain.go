package bus

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/nats-io/nats.go"
)

// errPlain is why a server is not spoken to.
var errPlain = errors.New("without TLS, tokens and Secrets can be read on the way: use tls:// and the authority of NATS (--nats-ca-file), " +
	"or --nats-insecure if nobody else is on that network")

// servers are the URLs one by one.
func (c Config) servers() []string {
	var all []string
	for _, urls := range c.URLs {
		for text := range strings.SplitSeq(urls, ",") {
			all = append(all, strings.TrimSpace(text))
		}
	}
	return all
}

// demandsTLS reports whether nothing is sent to a server without TLS: it is enough that one URL says
// so, or that there is something that only TLS needs.
func (c Config) demandsTLS() bool {
	for _, text := range c.servers() {
		scheme, _, _ := strings.Cut(strings.ToLower(text), "://")
		if scheme == "tls" || scheme == "wss" {
			return true
		}
	}
	return c.CAFile != "" || len(c.CA) > 0 || c.CertFile != "" || c.KeyFile != ""
}

// loopbackOnly reports whether only servers of this machine may be spoken to.
func (c Config) loopbackOnly() bool {
	return !c.Insecure && c.InProcess == nil && !c.demandsTLS()
}

// CheckServers returns an error if one of the URLs leads to another machine without TLS, which is not
// allowed. A name other than localhost counts as another machine's.
func (c Config) CheckServers() error {
	if !c.loopbackOnly() {
		return nil
	}
	for _, text := range c.servers() {
		if !strings.Contains(text, "://") {
			text = "nats://" + text
		}
		server, err := url.Parse(text)
		if err != nil || onThisMachine(server.Hostname()) {
			continue // What cannot be parsed is refused by the client of NATS.
		}
		return fmt.Errorf("%s is on another machine: %w", (Config{URLs: []string{text}}).Servers(), errPlain)
	}
	return nil
}

// onThisMachine reports whether a host is a loopback address, or localhost.
func onThisMachine(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}

// dialing has a client keep to this machine after it has connected, too: a server tells its clients
// of others, and localhost can be any address.
func (c Config) dialing() []nats.Option {
	if !c.loopbackOnly() {
		return nil
	}
	return []nats.Option{nats.SetCustomDialer(loopbackDialer{net.Dialer{Timeout: connectTimeout}})}
}

// loopbackDialer connects to this machine only.
type loopbackDialer struct{ dialer net.Dialer }

// Dial connects to address, unless that is another machine's.
func (d loopbackDialer) Dial(network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", address, err)
	}
	if ip, err := netip.ParseAddr(host); err != nil || !ip.Unmap().IsLoopback() {
		return nil, fmt.Errorf("%s is on another machine: %w", address, errPlain)
	}
	return d.dialer.Dial(network, address)
}
