package forward

import (
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/garboard/garboard/services/nodeagent/internal/dns/wire"
)

// What is read of a resolv.conf: bytes, servers, search domains.
const (
	maxHostConf = 64 << 10
	maxServers  = 15
	maxSearches = 32
)

// dnsPort is the port of DNS servers.
const dnsPort = 53

// hostConf is what a resolv.conf says, as far as it matters here.
type hostConf struct {
	servers  []netip.AddrPort
	searches []wire.Name
}

// parseHostConf reads a resolv.conf. It ignores what is malformed, and what exceeds the limits.
func parseHostConf(text string) hostConf {
	var conf hostConf
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			addr, err := netip.ParseAddr(fields[1])
			server := netip.AddrPortFrom(addr.Unmap(), dnsPort)
			if err == nil && len(conf.servers) < maxServers && !slices.Contains(conf.servers, server) {
				conf.servers = append(conf.servers, server)
			}
		case "search", "domain":
			conf.searches = nil // The last line applies.
			for _, search := range fields[1:] {
				name, err := wire.ParseName(search)
				if err == nil && name.Labels() > 0 && len(conf.searches) < maxSearches {
					conf.searches = append(conf.searches, name)
				}
			}
		}
	}
	return conf
}

// readHostConf returns the text of a resolv.conf.
func readHostConf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxHostConf))
	return string(text), err
}
