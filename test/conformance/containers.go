package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/garboard/garboard/test/containers/harness"
)

const (
	// imagesModule is the folder of the module whose requirements include the images' programs.
	imagesModule = "test/conformance/images"
	// busybox is Debian's, a static program (package busybox-static).
	busybox = "/bin/busybox"
	// registry is where Kubernetes has the images of its tests.
	registry = "e2e-test-images/"
)

// containers are nodes with the images of Kubernetes' tests, for the plane to judge.
type containers struct {
	host *host
	// The first node, whose registry has the images.
	*harness.Containers
	nodes  *harness.Nodes
	agents []*agent
}

// startContainers builds the images, unless the cache has their programs, and starts nodes.
func startContainers(ctx context.Context, cache, version string, nodes int) (c *containers, err error) {
	h := &host{context: func() context.Context { return ctx }}
	defer func() {
		if problem := recover(); problem != nil && problem != any(h) {
			panic(problem)
		}
		if h.failed != nil {
			h.end()
			c, err = nil, h.failed
		}
	}()
	programs := map[string]string{}
	for name, source := range map[string]string{
		"agnhost": "k8s.io/kubernetes/test/images/agnhost", "nonewprivs": "k8s.io/kubernetes/test/images/nonewprivs",
		"sample-apiserver": "k8s.io/sample-apiserver", "etcd": "go.etcd.io/etcd/server/v3",
	} {
		programs[name] = filepath.Join(cache, version, name)
		if err := compile(ctx, imagesModule, programs[name], []string{"build", "-ldflags=-s -w", source}); err != nil {
			return nil, err
		}
	}
	c = &containers{host: h, nodes: harness.StartNodes(h, nodes)}
	c.Containers = c.nodes.List[0].Containers
	images, err := c.images(ctx, programs)
	if err != nil {
		h.end()
		return nil, err
	}
	for _, image := range images {
		if err := c.Push(image); err != nil {
			h.failed = err
			break
		}
	}
	return c, nil
}

// stop ends the nodes and their containers.
func (c *containers) stop() { c.host.end() }

// images returns the images that nearly all specs use. Their programs are Kubernetes' own, this machine's, and those of
// the harness.
func (c *containers) images(ctx context.Context, programs map[string]string) ([]harness.Image, error) {
	tools, err := toolsOf(ctx)
	if err != nil {
		return nil, err
	}
	folder, err := moduleFolder(ctx, imagesModule)
	if err != nil {
		return nil, err
	}
	files := map[string]string{
		"/etc/passwd":    "root:x:0:0:root:/root:/bin/sh\nuser-defined-in-image:x:1000:1000::/home/user:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n",
		"/etc/group":     "root:x:0:\nuser-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\nnobody:x:65534:\n",
		"/uploads/.keep": "",
	}
	for path, at := range map[string]string{"/localhost.crt": "agnhost/porter/localhost.crt", "/localhost.key": "agnhost/porter/localhost.key"} {
		data, err := os.ReadFile(filepath.Join(folder, "test/images", at))
		if err != nil {
			return nil, fmt.Errorf("reading a file of the image agnhost: %w", err)
		}
		files[path] = string(data)
	}
	agnhost := harness.Image{
		Repository: registry + "agnhost", Tags: []string{"2.66.1", "2.55"}, Binary: programs["agnhost"], Path: "/agnhost", Links: []string{"/agnhost-2"},
		Programs: tools, Files: files, Entrypoint: []string{"/agnhost"}, Command: []string{"pause"},
	}
	nautilus := agnhost
	nautilus.Repository, nautilus.Tags, nautilus.Command = registry+"nautilus", []string{"1.8"}, []string{"test-webserver"}
	nautilus.Files = map[string]string{}
	for _, name := range []string{"data.json", "nautilus.jpg"} {
		data, err := os.ReadFile(filepath.Join(folder, "test/images/nautilus/html", name))
		if err != nil {
			return nil, fmt.Errorf("reading a file of the image nautilus: %w", err)
		}
		nautilus.Files["/"+name] = string(data)
	}
	privileges := harness.Image{
		Repository: registry + "nonewprivs", Tags: []string{"1.4"}, Binary: busybox, Path: busybox, Command: []string{"nnp"},
		Programs: []harness.Program{{File: programs["nonewprivs"], Path: "/usr/local/bin/nnp", SetUID: true}},
	}
	box := harness.Image{
		Repository: registry + "busybox", Tags: []string{"1.37.0-2"}, Binary: tools[0].File, Path: tools[0].Path, Links: tools[0].Links, Programs: tools[1:],
		Command: []string{"sh"},
	}
	nginx := harness.Image{
		Repository: registry + "nginx", Tags: []string{"1.27.0-2", "1.28.0-2"}, Binary: c.StandIn("nginx"), Path: "/usr/sbin/nginx",
		Programs: tools, Entrypoint: []string{"/usr/sbin/nginx"}, Command: []string{"-g", "daemon off;"},
		Files: map[string]string{"/usr/share/nginx/html/index.html": "<html><body><h1>Welcome to nginx!</h1></body></html>\n"},
	}
	resolvers := box
	resolvers.Repository, resolvers.Tags = registry+"glibc-dns-testing", []string{"2.1.1"}
	sample := harness.Image{
		Repository: registry + "sample-apiserver", Tags: []string{"1.29.2"}, Binary: programs["sample-apiserver"], Path: "/sample-apiserver",
		Entrypoint: []string{"/sample-apiserver"},
	}
	etcd := harness.Image{Repository: "etcd", Tags: []string{"3.7.0-0"}, Binary: programs["etcd"], Path: "/usr/local/bin/etcd"}
	pause := harness.Image{Repository: "pause", Tags: []string{"3.10.2"}, Binary: c.StandIn("pause"), Path: "/pause", Entrypoint: []string{"/pause"}}
	return []harness.Image{agnhost, nautilus, privileges, box, resolvers, nginx, sample, etcd, pause}, nil
}

// toolsOf returns busybox, and those programs of this machine that tests call in containers, with their libraries.
func toolsOf(ctx context.Context) ([]harness.Program, error) {
	out, err := exec.CommandContext(ctx, busybox, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("listing what busybox can do (apt-get install busybox-static): %w", err)
	}
	box := harness.Program{File: busybox, Path: busybox}
	own := []string{"bash", "curl", "dig", "getent", "ip", "nc", "ss"}
	found, applets := map[string]string{}, strings.Fields(string(out))
	for _, name := range own {
		path, err := exec.LookPath(name)
		if err != nil && !slices.Contains(applets, name) {
			return nil, fmt.Errorf("tests call %s in containers (apt-get install bash bind9-dnsutils curl iproute2): %w", name, err)
		}
		found[name] = path
	}
	for _, name := range applets {
		// Debian's busybox has a shell that hides environment variables with a - in their names.
		if name != "busybox" && found[name] == "" && (name != "sh" || found["bash"] == "") {
			box.Links = append(box.Links, "/bin/"+name)
		}
	}
	tools, seen := []harness.Program{box}, map[string]bool{}
	for _, name := range own {
		if found[name] == "" {
			continue
		}
		tool := harness.Program{File: found[name], Path: "/usr/bin/" + name}
		if name == "bash" {
			tool.Links = []string{"/bin/sh"}
		}
		tools = append(tools, tool)
		libraries, err := exec.CommandContext(ctx, "ldd", found[name]).Output()
		if err != nil {
			return nil, fmt.Errorf("listing the libraries of %s: %w", name, err)
		}
		for word := range strings.FieldsSeq(string(libraries)) {
			if strings.HasPrefix(word, "/") && !seen[word] {
				seen[word] = true
				tools = append(tools, harness.Program{File: word, Path: word})
			}
		}
	}
	return tools, nil
}

// moduleFolder returns the folder of Kubernetes' sources that a module requires.
func moduleFolder(ctx context.Context, module string) (string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
	list.Dir, list.Stderr = module, os.Stderr
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("finding Kubernetes' sources: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// host is what the harness takes for a test.
type host struct {
	testing.TB
	context func() context.Context
	ends    []func()
	failed  error
}

// Helper does nothing.
func (h *host) Helper() {}

// Context returns the context of the command.
func (h *host) Context() context.Context { return h.context() }

// Cleanup adds what end calls.
func (h *host) Cleanup(end func()) { h.ends = append(h.ends, end) }

// Logf prints a line.
func (h *host) Logf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// Failed reports whether something is wrong.
func (h *host) Failed() bool { return h.failed != nil }

// Errorf prints what is wrong, and notes that something is.
func (h *host) Errorf(format string, args ...any) {
	h.failed = errors.Join(h.failed, fmt.Errorf(format, args...))
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

// Error prints what is wrong, and notes that something is.
func (h *host) Error(args ...any) { h.Errorf("%s", fmt.Sprintln(args...)) }

// Fatalf ends the start.
func (h *host) Fatalf(format string, args ...any) {
	h.failed = errors.Join(h.failed, fmt.Errorf(format, args...))
	panic(h)
}

// Skipf ends the start: without containers there is nothing to judge.
func (h *host) Skipf(format string, args ...any) { h.Fatalf(format, args...) }

// end calls what Cleanup added, the last first.
func (h *host) end() {
	for _, end := range slices.Backward(h.ends) {
		end()
	}
	h.ends = nil
}
