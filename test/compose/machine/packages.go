package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// packages returns the Debian packages that Docker and the image builds need.
func packages() []string {
	return []string{"ca-certificates", "debootstrap", "busybox-static", "docker.io", "iptables"}
}

// Debian's releases: the one that this runs on, and the next one, which provides single programs
// that the first lacks or has only in old versions.
const (
	release = "bookworm"
	next    = "trixie"
)

// retries makes apt retry when a download is interrupted.
const retries = "Acquire::Retries=3"

// pluginFolder is where Docker's client looks for system-wide plugins.
const pluginFolder = "/usr/local/lib/docker/cli-plugins"

// install installs what is missing.
func (m *machine) install(ctx context.Context) error {
	var missing []string
	for _, name := range packages() {
		if state, err := output(ctx, "dpkg-query", "-W", "-f", "${Status}", name); err != nil || !strings.HasSuffix(state, "ok installed") {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		if err := call(ctx, "", "apt-get", "update", "-q", "-o", retries); err != nil {
			return err
		}
		args := append([]string{"DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-yq", "-o", retries, "--no-install-recommends"}, missing...)
		if err := call(ctx, "", "env", args...); err != nil {
			return err
		}
	}
	for _, name := range []string{"compose", "buildx"} {
		if _, err := output(ctx, "docker", name, "version"); err == nil {
			continue
		}
		if err := m.plugin(ctx, name); err != nil {
			return fmt.Errorf("installing docker %s: %w", name, err)
		}
	}
	return nil
}

// plugin installs a plugin of Docker's client.
func (m *machine) plugin(ctx context.Context, name string) error {
	folder, err := m.unpacked(ctx, "docker-"+name)
	if err != nil {
		return err
	}
	found, err := filepath.Glob(filepath.Join(folder, "usr/lib*/docker/cli-plugins/docker-"+name))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("the package of Debian has %v, want one file: %w", found, err)
	}
	if err := os.MkdirAll(pluginFolder, 0o755); err != nil {
		return err
	}
	return call(ctx, "", "install", "-m", "0755", found[0], filepath.Join(pluginFolder, "docker-"+name))
}

// unpacked returns a folder with the content of a package of Debian's next release. The package is
// not installed, since that would pull in that release's libraries.
func (m *machine) unpacked(ctx context.Context, name string) (string, error) {
	folder := filepath.Join(m.dir, next, name)
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	apt := filepath.Join(m.dir, "apt")
	for _, part := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(apt, part), 0o755); err != nil {
			return "", err
		}
	}
	mirror, err := mirror(ctx)
	if err != nil {
		return "", err
	}
	list := filepath.Join(apt, "sources.list")
	if err := os.WriteFile(list, []byte("deb "+mirror+" "+next+" main\n"), 0o644); err != nil {
		return "", err
	}
	options := []string{
		"-q", "-o", "Dir::Etc::SourceList=" + list, "-o", "Dir::Etc::SourceParts=/dev/null",
		"-o", "Dir::State::Lists=" + filepath.Join(apt, "lists"), "-o", "Dir::Cache=" + filepath.Join(apt, "cache"),
		"-o", "APT::Sandbox::User=root", "-o", retries,
	}
	downloads, err := os.MkdirTemp(m.dir, "download-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(downloads) }()
	if err := call(ctx, "", "apt-get", append(options, "update")...); err != nil {
		return "", err
	}
	if err := call(ctx, downloads, "apt-get", append(options, "download", name)...); err != nil {
		return "", err
	}
	found, err := filepath.Glob(filepath.Join(downloads, "*.deb"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("downloading Debian's package %s left %v: %w", name, found, err)
	}
	contents := filepath.Join(downloads, "contents")
	if err := call(ctx, "", "dpkg-deb", "-x", found[0], contents); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return "", err
	}
	return folder, os.Rename(contents, folder)
}

// mirror returns the Debian mirror that this machine uses.
func mirror(ctx context.Context) (string, error) {
	listed, err := output(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Codename: "+release, "Component: main")
	if err != nil {
		return "", err
	}
	first, _, _ := strings.Cut(listed, "\n")
	if first == "" {
		return "", errors.New("apt has no source for Debian " + release)
	}
	return strings.TrimSuffix(first, "/"), nil
}
