package main

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// recipes has the Dockerfiles of the stand-ins, and the files that they copy.
//
//go:embed recipes
var recipes embed.FS

// label marks an image as built here. Its value is the digest of the recipe, so that a stand-in is
// rebuilt when its recipe changes, and a pulled image is never replaced.
const label = "garboard.stand-in"

// standIn describes how to build an image that the plane's files name.
type standIn struct {
	// name is the upstream name and tag; recipe is the folder below recipes.
	name, recipe string
	// pin identifies inputs that are not part of the recipe.
	pin string
	// prepare fills the folder in which the recipe is built.
	prepare func(ctx context.Context, m *machine, folder string) error
}

// base is the base image of most others.
const base = "debian:bookworm-slim"

// A test compares versions that are stated twice with go.mod and the compose file.
const (
	etcdVersion       = "3.7.3"
	natsVersion       = "2.15.2"
	goVersion         = "1.26"
	haproxyVersion    = "2.6"
	prometheusVersion = "2.53.3"
)

// images returns all stand-ins, in build order.
func images() []standIn {
	return []standIn{
		{name: "golang:" + goVersion, recipe: "golang", prepare: toolchain},
		{name: "quay.io/coreos/etcd:v" + etcdVersion, recipe: "etcd", pin: etcdVersion, prepare: programs("go.etcd.io/etcd/server/v3=etcd", "go.etcd.io/etcd/etcdctl/v3=etcdctl", "go.etcd.io/etcd/etcdutl/v3=etcdutl")},
		{name: "nats:" + natsVersion + "-alpine", recipe: "nats", pin: natsVersion, prepare: natsServer},
		{name: "haproxy:" + haproxyVersion, recipe: "haproxy"},
		{name: "prom/prometheus:v" + prometheusVersion, recipe: "prometheus", prepare: prometheus},
	}
}

// standIns builds the images that are missing.
func (m *machine) standIns(ctx context.Context) error {
	chosen := images()
	for _, name := range m.only {
		if name != base && !slices.ContainsFunc(chosen, func(i standIn) bool { return i.name == name }) {
			return fmt.Errorf("there is no recipe for the image %s", name)
		}
	}
	if err := m.debian(ctx); err != nil {
		return fmt.Errorf("building %s: %w", base, err)
	}
	for _, image := range chosen {
		if len(m.only) > 0 && !slices.Contains(m.only, image.name) {
			continue
		}
		if err := m.build(ctx, image); err != nil {
			return fmt.Errorf("building %s: %w", image.name, err)
		}
	}
	return nil
}

// wanted reports whether the image must be built, given the digest of its recipe.
func (m *machine) wanted(ctx context.Context, name, recipe string) bool {
	marked, err := output(ctx, "docker", "image", "inspect", "--format", `{{index .Config.Labels "`+label+`"}}`, name)
	if err != nil {
		return true
	}
	return marked != "" && marked != recipe
}

// debian builds the base image from packages.
func (m *machine) debian(ctx context.Context) error {
	if !m.wanted(ctx, base, release) {
		return nil
	}
	folder, err := os.MkdirTemp(m.dir, "debian-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	mirror, err := mirror(ctx)
	if err != nil {
		return err
	}
	root := filepath.Join(folder, "root")
	if err := call(ctx, "", "debootstrap", "--variant=minbase", release, root, mirror); err != nil {
		return err
	}
	if err := slim(root, mirror); err != nil {
		return err
	}
	return imported(ctx, root)
}

// slim removes from a Debian root what the official image leaves out, too, and keeps apt from
// leaving packages in the layers of images built on it.
func slim(root, mirror string) error {
	for _, pattern := range []string{"var/cache/apt/*", "var/lib/apt/lists/*", "var/log/*", "usr/share/doc/*", "usr/share/man/*", "usr/share/locale/*", "usr/share/info/*"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return err
		}
		for _, file := range found {
			if err := os.RemoveAll(file); err != nil {
				return err
			}
		}
	}
	sources := fmt.Sprintf("deb %[1]s %[2]s main\ndeb %[1]s %[2]s-updates main\n", mirror, release)
	for name, content := range map[string]string{
		"etc/apt/sources.list":                   sources,
		"etc/apt/apt.conf.d/docker-clean":        "DPkg::Post-Invoke { \"rm -f /var/cache/apt/archives/*.deb /var/cache/apt/*.bin || true\"; };\nDir::Cache::pkgcache \"\";\nDir::Cache::srcpkgcache \"\";\n",
		"etc/dpkg/dpkg.cfg.d/docker-no-manuals":  "path-exclude /usr/share/doc/*\npath-exclude /usr/share/man/*\npath-exclude /usr/share/locale/*\n",
		"usr/sbin/policy-rc.d":                   "#!/bin/sh\nexit 101\n",
		"etc/apt/apt.conf.d/docker-no-languages": "Acquire::Languages \"none\";\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// imported imports the folder as the base image.
func imported(ctx context.Context, root string) (err error) {
	archive := exec.CommandContext(ctx, "tar", "-C", root, "-c", ".")
	reader, err := archive.StdoutPipe()
	if err != nil {
		return err
	}
	load := exec.CommandContext(ctx, "docker", "import", "--change", `CMD ["bash"]`, "--change", "LABEL "+label+"="+release, "-", base)
	load.Stdin, load.Stderr, archive.Stderr = reader, os.Stderr, os.Stderr
	if err := archive.Start(); err != nil {
		return err
	}
	return errors.Join(load.Run(), archive.Wait())
}

// build builds one image.
func (m *machine) build(ctx context.Context, image standIn) error {
	recipe, err := fs.Sub(recipes, "recipes/"+image.recipe)
	if err != nil {
		return err
	}
	digest, err := digest(recipe, image.pin)
	if err != nil {
		return err
	}
	if !m.wanted(ctx, image.name, digest) {
		return nil
	}
	folder, err := os.MkdirTemp(m.dir, "image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if err := os.CopyFS(folder, recipe); err != nil {
		return err
	}
	if image.prepare != nil {
		if err := image.prepare(ctx, m, folder); err != nil {
			return err
		}
	}
	return call(ctx, folder, "docker", "build", "--progress", "plain", "--tag", image.name, "--label", label+"="+digest, ".")
}

// digest returns a digest that identifies a recipe.
func digest(recipe fs.FS, pin string) (string, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n", pin)
	err := fs.WalkDir(recipe, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file, err := recipe.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		fmt.Fprintf(sum, "%s\n", name)
		_, err = io.Copy(sum, file)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil))[:16], err
}

// programs returns a prepare function that builds programs from the module thirdparty: PACKAGE=NAME
// each.
func programs(wanted ...string) func(context.Context, *machine, string) error {
	return func(ctx context.Context, m *machine, folder string) error {
		for _, one := range wanted {
			path, name, _ := strings.Cut(one, "=")
			if err := m.compile(ctx, filepath.Join(m.source, "test/compose/machine/thirdparty"), filepath.Join(folder, name), path); err != nil {
				return err
			}
		}
		return nil
	}
}

func natsServer(ctx context.Context, m *machine, folder string) error {
	if err := call(ctx, "", "cp", "/bin/busybox", filepath.Join(folder, "busybox")); err != nil {
		return err
	}
	return programs("github.com/nats-io/nats-server/v2=nats-server")(ctx, m, folder)
}

// toolchain copies this machine's Go and its trusted certificate authorities, so that downloads in
// a build work as they do here.
func toolchain(ctx context.Context, _ *machine, folder string) error {
	root, err := output(ctx, "go", "env", "GOROOT")
	if err != nil {
		return err
	}
	bundle := "/etc/ssl/certs/ca-certificates.crt"
	if set := os.Getenv("SSL_CERT_FILE"); set != "" {
		bundle = set
	}
	if err := call(ctx, "", "cp", "-L", bundle, filepath.Join(folder, "ca-certificates.crt")); err != nil {
		return err
	}
	return call(ctx, "", "cp", "-a", root, filepath.Join(folder, "go"))
}

// prometheus copies the programs from Debian's packages.
func prometheus(ctx context.Context, m *machine, folder string) error {
	for _, name := range []string{"prometheus", "promtool"} {
		unpacked, err := m.unpacked(ctx, name)
		if err != nil {
			return err
		}
		if err := call(ctx, "", "cp", filepath.Join(unpacked, "usr/bin", name), filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	said, err := output(ctx, filepath.Join(folder, "prometheus"), "--version")
	if err == nil && !strings.Contains(said, "version "+majorMinor(prometheusVersion)) {
		err = fmt.Errorf("the Prometheus of Debian is not version %s: %s", prometheusVersion, said)
	}
	return err
}

// majorMinor returns the part of a version within which Debian's version differs from upstream's
// only in fixes.
func majorMinor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return parts[0] + "." + parts[1] + "."
}
