package podnetwork

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
)

// confName is the name of the configuration's file. Container runtimes use the first file of the folder.
const confName = "10-garboard.conflist"

// The version of the CNI specification whose configuration is written: the latest that all plugins know
// since their release 1.0.
const cniVersion = "1.0.0"

type conflist struct {
	Version string `json:"cniVersion"`
	Name    string `json:"name"`
	Plugins []any  `json:"plugins"`
}

type bridgePlugin struct {
	Type        string `json:"type"`
	Bridge      string `json:"bridge"`
	MTU         int    `json:"mtu"`
	IsGateway   bool   `json:"isGateway"`
	HairpinMode bool   `json:"hairpinMode"`
	IPAM        ipam   `json:"ipam"`
}

type ipam struct {
	Type    string        `json:"type"`
	Ranges  [][]addresses `json:"ranges"`
	Routes  []route       `json:"routes"`
	DataDir string        `json:"dataDir,omitempty"`
}

type addresses struct {
	Subnet string `json:"subnet"`
}

type route struct {
	To string `json:"dst"`
}

// capable is a plugin whose parameters come from the container runtime.
type capable struct {
	Type         string          `json:"type"`
	Capabilities map[string]bool `json:"capabilities"`
	SNAT         *bool           `json:"snat,omitempty"`
}

// configuration returns the content of the configuration's file. The folder dataDir records the addresses
// that are taken; the plugin's own default if empty.
func configuration(plan *Plan, bridge, dataDir string) ([]byte, error) {
	addressing := ipam{Type: "host-local", DataDir: dataDir}
	for _, cidr := range plan.CIDRs {
		addressing.Ranges = append(addressing.Ranges, []addresses{{Subnet: cidr.String()}})
		all := netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		if cidr.Addr().Is4() {
			all = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		}
		addressing.Routes = append(addressing.Routes, route{To: all.String()})
	}
	snat := true
	text, err := json.MarshalIndent(conflist{
		Version: cniVersion, Name: "garboard",
		Plugins: []any{
			bridgePlugin{Type: "bridge", Bridge: bridge, MTU: plan.MTU, IsGateway: true, HairpinMode: true, IPAM: addressing},
			capable{Type: "portmap", Capabilities: map[string]bool{"portMappings": true}, SNAT: &snat},
			capable{Type: "bandwidth", Capabilities: map[string]bool{"bandwidth": true}},
		},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding the CNI configuration: %w", err)
	}
	return append(text, '\n'), nil
}

// writeConfiguration replaces the configuration's file at once, if its content is to change.
func writeConfiguration(dir string, content []byte) error {
	path := filepath.Join(dir, confName)
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("writing the CNI configuration: %w", err)
	}
	// A name that runtimes ignore, in the same folder, so that they never see half a file.
	fresh := filepath.Join(dir, "."+confName+".new")
	if err := os.WriteFile(fresh, content, 0o644); err != nil {
		return fmt.Errorf("writing the CNI configuration: %w", err)
	}
	if err := os.Rename(fresh, path); err != nil {
		return fmt.Errorf("writing the CNI configuration: %w", err)
	}
	return nil
}

// removeConfiguration removes the configuration's file.
func removeConfiguration(dir string) error {
	if err := os.Remove(filepath.Join(dir, confName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the CNI configuration: %w", err)
	}
	return nil
}

// shadowing returns the file that the container runtime uses in place of ours; empty if there is none.
func shadowing(dir string) string {
	files, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	for _, file := range files { // sorted by name, as runtimes sort them; they use hidden files, too
		if file.IsDir() || !slices.Contains([]string{".conf", ".conflist", ".json"}, filepath.Ext(file.Name())) {
			continue
		}
		if file.Name() == confName {
			return ""
		}
		return file.Name()
	}
	return ""
}
