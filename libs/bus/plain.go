package bus

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/garboard/garboard/libs/bus/internal/dialing"
)

// errPlain is the reason why the client does not connect to a server.
var errPlain = errors.New("without TLS, tokens and Secrets can be read on the way: use tls:// and the authority of NATS (--nats-ca-file), " +
	"or --nats-insecure if no one else uses that network")

// servers returns the URLs one by one.
func (c Config) servers() []string {
	var all []string
	for _, urls := range c.URLs {
		for text := range strings.SplitSeq(urls, ",") {
			all = append(all, strings.TrimSpace(text))
		}
	}
	return all
}

// demandsTLS reports whether the client sends nothing to a server without TLS. One TLS URL, or a
// setting that only TLS needs, is enough.
func (c Config) demandsTLS() bool {
	for _, text := range c.servers() {
		scheme, _, _ := strings.Cut(strings.ToLower(text), "://")
		if scheme == "tls" || scheme == "wss" {
			return true
		}
	}
	return c.CAFile != "" || len(c.CA) > 0 || c.CertFile != "" || c.KeyFile != ""
}

// loopbackOnly reports whether the client may connect only to servers on this machine.
func (c Config) loopbackOnly() bool {
	return !c.Insecure && c.InProcess == nil && !c.demandsTLS()
}

// CheckServers returns an error if one of the URLs leads to another machine without TLS, which is
// not allowed. A host name other than localhost counts as another machine.
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
			continue // The NATS client rejects what cannot be parsed.
		}
		return fmt.Errorf("%s is on another machine: %w", (Config{URLs: []string{text}}).Servers(), errPlain)
	}
	return nil
}

// onThisMachine reports whether host is a loopback address or localhost.
func onThisMachine(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}

// dialing restricts the client to this machine after it has connected, too: a server announces
// other servers to its clients, and localhost can resolve to any address. It lets reads pause.
func (c Config) dialing() []nats.Option {
	var chosen dialing.Dialer = &net.Dialer{Timeout: connectTimeout}
	if c.loopbackOnly() {
		chosen = dialing.Loopback{Dialer: chosen, Refusal: errPlain}
	}
	if c.ReadPause > 0 {
		chosen = dialing.Pausing{Dialer: chosen, Pause: c.ReadPause}
	}
	return []nats.Option{nats.SetCustomDialer(chosen)}
}
