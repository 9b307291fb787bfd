package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/test/e2e/plane"
)

// session is a sequence of commands that one user types in a namespace of its own, with the
// expected output. The texts come from the sources and the documentation of kubectl and of
// Kubernetes.
type session struct {
	name  string            // also the name of the namespace
	files map[string]string // in the working folder of the commands
	steps []step
}

// step is one command of a session.
type step struct {
	run   string   // the command line after "kubectl", with quotes as in a shell; {ns} is the session's namespace
	stdin string   // standard input
	env   []string // further variables, such as KUBE_EDITOR
	out   string   // the shape of standard output
	err   string   // the shape of standard error
	code  int      // the exit code
	until bool     // repeat the command until it matches, since its result follows asynchronously
}

// TestSessions runs kubectl's commands, group by group, on the kinds that they support.
func TestSessions(t *testing.T) {
	p := plane.Start(t, plane.Binary(t), "--runtime", "simulated", "--nodes", "3")
	for _, s := range []session{
		createSession(t), runSession(), changeSession(), rolloutSession(), getSession(), explainSession(), applySession(), clusterSession(t), describeSession(t), inputSession(),
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.play(t, p)
		})
	}
}

// play runs the session's commands one after another.
func (s session) play(t *testing.T, p *plane.Plane) {
	t.Helper()
	p.Must(t, "", "create", "namespace", s.name)
	folder := t.TempDir()
	for name, text := range s.files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	own := inNamespace(t, p, s.name)
	plane.Eventually(t, "what the controllers make in every namespace", func(context.Context) error {
		if res := own.Kubectl(t, "", "get", "serviceaccount/default", "configmap/kube-root-ca.crt"); res.Code != 0 {
			return errors.New(res.Stderr)
		}
		return nil
	})
	for _, step := range s.steps {
		step.run = strings.ReplaceAll(step.run, "{ns}", s.name)
		step.out = strings.ReplaceAll(step.out, "{ns}", s.name)
		step.err = strings.ReplaceAll(step.err, "{ns}", s.name)
		step.stdin = strings.ReplaceAll(step.stdin, "{ns}", s.name)
		if step.until {
			plane.Eventually(t, "kubectl "+step.run, func(context.Context) error { return step.try(t, own, folder) })
			continue
		}
		if err := step.try(t, own, folder); err != nil {
			t.Error(err)
		}
	}
}

// try runs the command in folder. It returns an error if the result differs from the expected one.
func (s step) try(t *testing.T, p *plane.Plane, folder string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), plane.Patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := p.Command(ctx, words(s.run)...)
	cmd.Dir, cmd.Env = folder, append(cmd.Env, s.env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(s.stdin), &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatalf("kubectl %s: %v", s.run, err)
	}
	stderrLines := slices.DeleteFunc(slices.Collect(strings.Lines(stderr.String())), scheme.IsIgnored)
	if code := cmd.ProcessState.ExitCode(); code != s.code || !shape(s.out).MatchString(stdout.String()) || !shape(s.err).MatchString(strings.Join(stderrLines, "")) {
		return fmt.Errorf("kubectl %s: exit code %d\n%s-- stderr\n%s-- want %d\n%s\n-- stderr\n%s",
			s.run, code, stdout.String(), stderr.String(), s.code, s.out, s.err)
	}
	return nil
}

// inNamespace returns the plane as its administrator sees it with the named default namespace.
func inNamespace(t *testing.T, p *plane.Plane, namespace string) *plane.Plane {
	t.Helper()
	config, err := clientcmd.LoadFromFile(p.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range config.Contexts {
		each.Namespace = namespace
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return p.As(path)
}

// shape returns the pattern of a text in which a run of blanks matches any run of blanks, "…"
// anything within a line, and a line of "⋮" any number of lines.
func shape(text string) *regexp.Regexp {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	var pattern strings.Builder
	pattern.WriteString(`\A\n*`)
	for i, line := range lines {
		if strings.TrimSpace(line) == "⋮" {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		line = regexp.QuoteMeta(strings.TrimRight(line, " \t"))
		line = strings.ReplaceAll(line, "…", `.*`)
		pattern.WriteString(regexp.MustCompile(`[ \t]+`).ReplaceAllString(line, `[ \t]+`) + `[ \t]*`)
		if i < len(lines)-1 {
			pattern.WriteString(`\n`)
		}
	}
	pattern.WriteString(`\n*\z`)
	return regexp.MustCompile(pattern.String())
}

// words splits a command as a shell would that knows only quotes.
func words(line string) []string {
	var all []string
	var word strings.Builder
	var quote rune
	begun := false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, begun = r, true
		case quote == 0 && r == ' ':
			if begun {
				all = append(all, word.String())
				word.Reset()
				begun = false
			}
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if begun {
		all = append(all, word.String())
	}
	return all
}

// concat joins the parts of a session.
func concat(parts ...[]step) []step { return slices.Concat(parts...) }
