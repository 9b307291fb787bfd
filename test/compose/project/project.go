// Package project brings the plane's compose file up under a name of its own and does to it what
// tests want done: scale, kill, pause, look. It runs `docker compose` as a user would, on the file as
// it is, with settings only by the environment.
package project

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Config says what to bring up.
type Config struct {
	// Name is the project's: containers, volumes and the network begin with it. Required.
	Name string
	// Source is the root of the sources. Required.
	Source string
	// Profiles replace those of the compose file's settings when there are any.
	Profiles []string
	// Files are further compose files, from the root of the sources; they add to compose.yaml.
	Files []string
	// Settings replace those of compose/.env.
	Settings map[string]string
	// Log takes what docker compose says; nobody when nil.
	Log io.Writer
}

// Project is a plane in containers.
type Project struct{ cfg Config }

// New makes a project; nothing is started.
func New(cfg Config) (*Project, error) {
	if cfg.Name == "" || cfg.Source == "" {
		return nil, errors.New("a project needs a name, and the root of the sources")
	}
	if cfg.Log == nil {
		cfg.Log = io.Discard
	}
	return &Project{cfg: cfg}, nil
}

// Name is the project's name.
func (p *Project) Name() string { return p.cfg.Name }

// Up starts everything, and waits until all is healthy. What runs already stays as it is unless its
// settings have changed. It may be called again, with more services named to start only those.
func (p *Project) Up(ctx context.Context, services ...string) error {
	_, err := p.compose(ctx, append([]string{"up", "--detach", "--wait", "--no-build", "--quiet-pull"}, services...)...)
	return err
}

// Down ends everything, and removes containers, networks and volumes.
func (p *Project) Down(ctx context.Context) error {
	_, err := p.compose(ctx, "--profile", "*", "--progress", "quiet", "down", "--volumes", "--remove-orphans")
	return err
}

// Scale sets how many containers services have, and waits until they are healthy.
func (p *Project) Scale(ctx context.Context, counts map[string]int) error {
	args := []string{"up", "--detach", "--wait", "--no-build", "--no-recreate"}
	for _, service := range slices.Sorted(maps.Keys(counts)) {
		args = append(args, "--scale", service+"="+strconv.Itoa(counts[service]))
	}
	_, err := p.compose(ctx, args...)
	return err
}

// Run runs a service's container once and returns what it printed.
func (p *Project) Run(ctx context.Context, service string, args ...string) (string, error) {
	return p.compose(ctx, append([]string{"run", "--rm", "--no-deps", "-T", service}, args...)...)
}

// Kubeconfig is the administrator's.
func (p *Project) Kubeconfig(ctx context.Context) ([]byte, error) {
	printed, err := p.Run(ctx, "kubeconfig")
	return []byte(printed), err
}

// Logs is the end of what the services' containers said, all of them when none is named.
func (p *Project) Logs(ctx context.Context, lines int, services ...string) (string, error) {
	return p.compose(ctx, append([]string{"logs", "--no-color", "--tail", strconv.Itoa(lines)}, services...)...)
}

// Container is one of a service's containers.
type Container struct {
	// ID is Docker's; Name is PROJECT-SERVICE-NUMBER.
	ID, Name, Service string
	// State is created, running, paused, restarting or exited; Health is empty for a container
	// without a check, else starting, healthy or unhealthy.
	State, Health string
	ExitCode      int
}

// Containers lists the containers of the services, ended ones too; of all when none is named.
func (p *Project) Containers(ctx context.Context, services ...string) ([]Container, error) {
	printed, err := p.compose(ctx, append([]string{"ps", "--all", "--no-trunc", "--format", "json"}, services...)...)
	if err != nil {
		return nil, err
	}
	return parseContainers(printed)
}

// parseContainers reads one JSON object on each line.
func parseContainers(printed string) ([]Container, error) {
	var found []Container
	for decoder := json.NewDecoder(strings.NewReader(printed)); ; {
		var one Container
		err := decoder.Decode(&one)
		if errors.Is(err, io.EOF) {
			slices.SortFunc(found, func(a, b Container) int { return compareNames(a.Name, b.Name) })
			return found, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the list of containers: %w", err)
		}
		found = append(found, one)
	}
}

// compareNames orders names by the number at their end: 2 is before 10.
func compareNames(a, b string) int {
	if d := len(a) - len(b); d != 0 && strings.TrimRight(a, "0123456789") == strings.TrimRight(b, "0123456789") {
		return d
	}
	return strings.Compare(a, b)
}

// Kill sends a signal to one container of a service, counted from 1.
func (p *Project) Kill(ctx context.Context, service string, number int, signal string) error {
	_, err := p.docker(ctx, "kill", "--signal", signal, p.container(service, number))
	return err
}

// Start starts one container that has ended.
func (p *Project) Start(ctx context.Context, service string, number int) error {
	_, err := p.docker(ctx, "start", p.container(service, number))
	return err
}

// Pause stops all processes of one container where they are.
func (p *Project) Pause(ctx context.Context, service string, number int) error {
	_, err := p.docker(ctx, "pause", p.container(service, number))
	return err
}

// Unpause lets the processes of a paused container go on.
func (p *Project) Unpause(ctx context.Context, service string, number int) error {
	_, err := p.docker(ctx, "unpause", p.container(service, number))
	return err
}

// Disconnect cuts one container off the plane's network.
func (p *Project) Disconnect(ctx context.Context, service string, number int) error {
	_, err := p.docker(ctx, "network", "disconnect", p.cfg.Name+"_default", p.container(service, number))
	return err
}

// Connect undoes Disconnect. The service's other names in DNS, beside its own, are to be given.
func (p *Project) Connect(ctx context.Context, service string, number int, aliases ...string) error {
	args := []string{"network", "connect", "--alias", service}
	for _, alias := range aliases {
		args = append(args, "--alias", alias)
	}
	_, err := p.docker(ctx, append(args, p.cfg.Name+"_default", p.container(service, number))...)
	return err
}

// Exec runs a program in one container of a service and returns what it printed.
func (p *Project) Exec(ctx context.Context, service string, number int, args ...string) (string, error) {
	return p.docker(ctx, append([]string{"exec", p.container(service, number)}, args...)...)
}

// Leftovers names what Docker has of the project: containers, networks, volumes.
func (p *Project) Leftovers(ctx context.Context) ([]string, error) {
	var left []string
	label := "label=com.docker.compose.project=" + p.cfg.Name
	for _, what := range [][]string{
		{"container", "ls", "--all", "--quiet", "--filter", label},
		{"network", "ls", "--quiet", "--filter", label},
		{"volume", "ls", "--quiet", "--filter", label},
	} {
		printed, err := p.docker(ctx, what...)
		if err != nil {
			return nil, err
		}
		for one := range strings.FieldsSeq(printed) {
			left = append(left, what[0]+" "+one)
		}
	}
	return left, nil
}

// Mounted names the volumes that the project's containers have, ended containers too: those that no
// file names are among them.
func (p *Project) Mounted(ctx context.Context) ([]string, error) {
	printed, err := p.docker(ctx, "container", "ls", "--all", "--no-trunc", "--filter", "label=com.docker.compose.project="+p.cfg.Name, "--format", "{{.Mounts}}")
	names := strings.FieldsFunc(printed, func(r rune) bool { return r == ',' || r == '\n' })
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "/") }) // files of this machine
	slices.Sort(names)
	return slices.Compact(names), err
}

// Volumes names all volumes that Docker has, of whatever project.
func (p *Project) Volumes(ctx context.Context) ([]string, error) {
	printed, err := p.docker(ctx, "volume", "ls", "--quiet")
	return strings.Fields(printed), err
}

// Gateway is this machine's address on Docker's own bridge: containers reach servers of the machine
// there.
func (p *Project) Gateway(ctx context.Context) (string, error) {
	printed, err := p.docker(ctx, "network", "inspect", "bridge", "--format", "{{with index .IPAM.Config 0}}{{.Gateway}} {{.Subnet}}{{end}}")
	if err != nil {
		return "", err
	}
	fields := strings.Fields(printed)
	if len(fields) == 2 {
		return fields[0], nil
	}
	// A daemon that chose the range itself says only which: it is the first address of it.
	if len(fields) == 1 {
		if subnet, err := netip.ParsePrefix(fields[0]); err == nil {
			return subnet.Addr().Next().String(), nil
		}
	}
	return "", fmt.Errorf("the bridge of Docker has no gateway: %q", printed)
}

func (p *Project) container(service string, number int) string {
	return p.cfg.Name + "-" + service + "-" + strconv.Itoa(number)
}

func (p *Project) compose(ctx context.Context, args ...string) (string, error) {
	fixed := []string{"compose", "--project-name", p.cfg.Name, "--file", filepath.Join(p.cfg.Source, "compose/compose.yaml"), "--ansi", "never", "--progress", "plain"}
	for _, file := range p.cfg.Files {
		fixed = append(fixed, "--file", filepath.Join(p.cfg.Source, file))
	}
	for _, profile := range p.cfg.Profiles {
		fixed = append(fixed, "--profile", profile)
	}
	return p.docker(ctx, append(fixed, args...)...)
}

// docker runs Docker's client and returns what it printed.
func (p *Project) docker(ctx context.Context, args ...string) (string, error) {
	var out, faults bytes.Buffer
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Env = os.Environ()
	for name, value := range p.cfg.Settings {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stdout, cmd.Stderr = &out, io.MultiWriter(&faults, p.cfg.Log)
	// Compose undoes what it began when it is told to stop.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(faults.String())
		return out.String(), fmt.Errorf("docker %s: %w: %s", strings.Join(args, " "), err, said[max(0, len(said)-2000):])
	}
	return out.String(), nil
}
