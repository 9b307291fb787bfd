// Package project brings the plane's compose file up under its own project name and operates on it:
// scale, kill, pause, inspect. It runs `docker compose` as a user would, on the unmodified file,
// with settings from the environment only.
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

// Config is the configuration of a project.
type Config struct {
	// Name is the project's name, the prefix of its containers, volumes and network. Required.
	Name string
	// Source is the root of the sources. Required.
	Source string
	// Profiles replace the profiles in the compose file's settings, unless empty.
	Profiles []string
	// Files are additional compose files, relative to the root of the sources.
	Files []string
	// Settings override those of compose/.env.
	Settings map[string]string
	// Log receives the output of docker compose; nil discards it.
	Log io.Writer
}

// Project is a plane in containers.
type Project struct{ cfg Config }

// New creates a project; nothing is started.
func New(cfg Config) (*Project, error) {
	if cfg.Name == "" || cfg.Source == "" {
		return nil, errors.New("a project needs a name, and the root of the sources")
	}
	if cfg.Log == nil {
		cfg.Log = io.Discard
	}
	return &Project{cfg: cfg}, nil
}

// Name returns the project's name.
func (p *Project) Name() string { return p.cfg.Name }

// Up starts everything, or only the named services, and waits until they are healthy. Running
// containers stay as they are unless their settings have changed, so it may be called again.
func (p *Project) Up(ctx context.Context, services ...string) error {
	_, err := p.compose(ctx, append([]string{"up", "--detach", "--wait", "--no-build", "--quiet-pull"}, services...)...)
	return err
}

// Down ends everything, and removes containers, networks and volumes.
func (p *Project) Down(ctx context.Context) error {
	_, err := p.compose(ctx, "--profile", "*", "--progress", "quiet", "down", "--volumes", "--remove-orphans")
	return err
}

// Scale sets the number of containers of services, and waits until they are healthy.
func (p *Project) Scale(ctx context.Context, counts map[string]int) error {
	args := []string{"up", "--detach", "--wait", "--no-build", "--no-recreate"}
	for _, service := range slices.Sorted(maps.Keys(counts)) {
		args = append(args, "--scale", service+"="+strconv.Itoa(counts[service]))
	}
	_, err := p.compose(ctx, args...)
	return err
}

// Run runs a service's container once and returns its output.
func (p *Project) Run(ctx context.Context, service string, args ...string) (string, error) {
	return p.compose(ctx, append([]string{"run", "--rm", "--no-deps", "-T", service}, args...)...)
}

// Kubeconfig returns the administrator's kubeconfig.
func (p *Project) Kubeconfig(ctx context.Context) ([]byte, error) {
	printed, err := p.Run(ctx, "kubeconfig")
	return []byte(printed), err
}

// Logs returns the end of the logs of the services' containers, of all services if none is named.
func (p *Project) Logs(ctx context.Context, lines int, services ...string) (string, error) {
	return p.compose(ctx, append([]string{"logs", "--no-color", "--tail", strconv.Itoa(lines)}, services...)...)
}

// Container is one of a service's containers.
type Container struct {
	// ID is Docker's; Name is PROJECT-SERVICE-NUMBER.
	ID, Name, Service string
	// State is created, running, paused, restarting or exited. Health is starting, healthy or
	// unhealthy, or empty for a container without a health check.
	State, Health string
	ExitCode      int
}

// Containers lists the services' containers, including exited ones; of all services if none is
// named.
func (p *Project) Containers(ctx context.Context, services ...string) ([]Container, error) {
	printed, err := p.compose(ctx, append([]string{"ps", "--all", "--no-trunc", "--format", "json"}, services...)...)
	if err != nil {
		return nil, err
	}
	return parseContainers(printed)
}

// parseContainers parses one JSON object per line.
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

// compareNames orders names by the number at their end: 2 comes before 10.
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

// Start starts one container that has exited.
func (p *Project) Start(ctx context.Context, service string, number int) error {
	_, err := p.docker(ctx, "start", p.container(service, number))
	return err
}

// Pause freezes all processes of one container.
func (p *Project) Pause(ctx context.Context, service string, number int) error {
	_, err := p.docker(ctx, "pause", p.container(service, number))
	return err
}

// Unpause resumes the processes of a paused container.
func (p *Project) Unpause(ctx context.Context, service string, number int) error {
	_, err := p.docker(ctx, "unpause", p.container(service, number))
	return err
}

// networks returns the networks of a service.
func (p *Project) networks(service string) []string {
	plane, nodes := p.cfg.Name+"_default", p.cfg.Name+"_nodes"
	switch {
	case service == "nodeagent":
		return []string{nodes}
	case service == "nats" || strings.HasPrefix(service, "nats-"):
		return []string{plane, nodes}
	}
	return []string{plane}
}

// Disconnect disconnects one container from the plane's networks.
func (p *Project) Disconnect(ctx context.Context, service string, number int) error {
	for _, network := range p.networks(service) {
		if _, err := p.docker(ctx, "network", "disconnect", network, p.container(service, number)); err != nil {
			return err
		}
	}
	return nil
}

// Connect undoes Disconnect. aliases are the service's additional DNS names.
func (p *Project) Connect(ctx context.Context, service string, number int, aliases ...string) error {
	args := []string{"network", "connect", "--alias", service}
	for _, alias := range aliases {
		args = append(args, "--alias", alias)
	}
	for _, network := range p.networks(service) {
		if _, err := p.docker(ctx, append(slices.Clone(args), network, p.container(service, number))...); err != nil {
			return err
		}
	}
	return nil
}

// Exec runs a program in one container of a service and returns its output.
func (p *Project) Exec(ctx context.Context, service string, number int, args ...string) (string, error) {
	return p.docker(ctx, append([]string{"exec", p.container(service, number)}, args...)...)
}

// Leftovers returns what Docker has of the project: containers, networks, volumes.
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

// Mounted returns the names of the volumes of the project's containers, including exited containers
// and anonymous volumes.
func (p *Project) Mounted(ctx context.Context) ([]string, error) {
	printed, err := p.docker(ctx, "container", "ls", "--all", "--no-trunc", "--filter", "label=com.docker.compose.project="+p.cfg.Name, "--format", "{{.Mounts}}")
	names := strings.FieldsFunc(printed, func(r rune) bool { return r == ',' || r == '\n' })
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "/") }) // bind mounts
	slices.Sort(names)
	return slices.Compact(names), err
}

// Volumes returns the names of all of Docker's volumes, of any project.
func (p *Project) Volumes(ctx context.Context) ([]string, error) {
	printed, err := p.docker(ctx, "volume", "ls", "--quiet")
	return strings.Fields(printed), err
}

// Gateway returns this machine's address on Docker's default bridge, where containers reach servers
// on the machine.
func (p *Project) Gateway(ctx context.Context) (string, error) {
	printed, err := p.docker(ctx, "network", "inspect", "bridge", "--format", "{{with index .IPAM.Config 0}}{{.Gateway}} {{.Subnet}}{{end}}")
	if err != nil {
		return "", err
	}
	fields := strings.Fields(printed)
	if len(fields) == 2 {
		return fields[0], nil
	}
	// A daemon that chose the range itself reports only the subnet: the gateway is its first
	// address.
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

// docker runs Docker's client and returns its output.
func (p *Project) docker(ctx context.Context, args ...string) (string, error) {
	var out, faults bytes.Buffer
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Env = os.Environ()
	for name, value := range p.cfg.Settings {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stdout, cmd.Stderr = &out, io.MultiWriter(&faults, p.cfg.Log)
	// Compose undoes what it started when it is interrupted.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(faults.String())
		return out.String(), fmt.Errorf("docker %s: %w: %s", strings.Join(args, " "), err, said[max(0, len(said)-2000):])
	}
	return out.String(), nil
}
