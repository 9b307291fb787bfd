package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/test/compose/project"
	"github.com/garboard/garboard/test/outage/fleet"
	"github.com/garboard/garboard/test/outage/followers"
	"github.com/garboard/garboard/test/outage/load"
	"github.com/garboard/garboard/test/outage/workload"
)

const (
	// recovery bounds the time until everything works again after a fault, settling the time until
	// everything reaches its desired state at the end.
	recovery, settling = 5 * time.Minute, 10 * time.Minute
	// well is how long everything must work before a fault counts as over.
	well       = 5 * time.Second
	writers    = 8
	namespaces = 4
)

// stage is a deployment with users.
type stage struct {
	options
	project   *project.Project
	config    *rest.Config
	clients   kubernetes.Interface
	load      *load.Load
	early     []*load.Load         // earlier loads that were checked without faults
	work      []*workload.Workload // on simulated nodes, and on real ones
	followers *followers.Followers
	probes    *probes

	stops    []func() error // for what runs until the end, in order of start
	stopWork []func() error // for what changes objects
	stopLoad func() error
	logs     *os.File
}

// newStage brings everything up, and returns when everything works.
func newStage(ctx context.Context, o options) (*stage, error) {
	logs, err := os.Create(filepath.Join(o.dir, "log"))
	if err != nil {
		return nil, err
	}
	s := &stage{options: o, logs: logs, stopLoad: func() error { return nil }}
	settings := map[string]string{
		"GARBOARD_VERSION": o.version, "GARBOARD_PORT": strconv.Itoa(o.port), "GARBOARD_MTU": "1400",
		"OUTAGE_NATS_PORT": strconv.Itoa(o.port + 1), "OUTAGE_NATS_2_PORT": strconv.Itoa(o.port + 2), "OUTAGE_NATS_3_PORT": strconv.Itoa(o.port + 3),
		"GARBOARD_NATS_LOG_REPLICAS": "1", "ETCD_QUOTA_BACKEND_BYTES": strconv.Itoa(etcdQuota),
	}
	profiles := []string{"single"}
	if o.ha {
		profiles = []string{"ha"}
		settings["GARBOARD_NATS_LOG_REPLICAS"] = "3"
	}
	s.project, err = project.New(project.Config{
		Name: o.name, Source: ".", Profiles: profiles, Settings: settings, Files: []string{"test/outage/ports.yaml"}, Log: logs,
	})
	if err != nil {
		return s, err
	}
	if settings["GARBOARD_REGISTRY_MIRROR"], err = s.images(ctx); err != nil {
		return s, err
	}
	began := time.Now()
	if err := s.project.Up(ctx); err != nil {
		return s, err
	}
	fmt.Printf("the containers are healthy after %s\n", seconds(time.Since(began)))
	if err := s.users(ctx); err != nil {
		return s, err
	}
	if err := s.recovered(ctx, time.Now()); err != nil {
		return s, fmt.Errorf("before any fault: %w", err)
	}
	fmt.Printf("with %d simulated nodes, everything works after %s\n", o.nodes, seconds(time.Since(began)))
	return s, nil
}

// users starts the clients of the deployment.
func (s *stage) users(ctx context.Context) error {
	raw, err := s.project.Kubeconfig(ctx)
	if err != nil {
		return err
	}
	if s.config, err = clientcmd.RESTConfigFromKubeConfig(raw); err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	s.config.QPS = -1
	if s.clients, err = kubernetes.NewForConfig(s.config); err != nil {
		return err
	}
	for i := range namespaces {
		if err := s.namespace(ctx, fmt.Sprint("outage-", i)); err != nil {
			return err
		}
	}
	log := slog.New(slog.NewTextHandler(s.logs, nil))
	nats := bus.Config{CA: s.config.CAData, Logger: log}
	for i := range 3 {
		if i == 0 || s.ha {
			nats.URLs = append(nats.URLs, fmt.Sprintf("tls://127.0.0.1:%d", s.port+1+i))
		}
	}
	if err := s.nodesOf(ctx, nats, log); err != nil {
		return err
	}
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		NodeSelector: map[string]string{fleet.Label: "yes"}, Containers: []corev1.Container{{Name: "main", Image: "example.com/main:1"}},
		TerminationGracePeriodSeconds: new(int64),
	}}
	if s.followers, err = followers.New(s.config, nats, log); err != nil {
		return err
	}
	if s.probes, err = newProbes(s.config, "outage-0", template); err != nil {
		return err
	}
	s.beside(ctx, s.followers.Run)
	s.begin(ctx, "outage-1")
	pinned := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: fleet.Label, Operator: corev1.NodeSelectorOpDoesNotExist},
			}}},
		}}},
		Containers: []corev1.Container{{Name: "main", Image: "nginx:1.14.2"}}, TerminationGracePeriodSeconds: new(int64),
	}}
	s.work = []*workload.Workload{
		workload.New(workload.Config{Client: s.clients, Namespace: "outage-2", Deployments: 10, Pause: time.Second, Template: template, Seed: s.seed}),
		workload.New(workload.Config{Client: s.clients, Namespace: "outage-3", Deployments: 2, Pause: 10 * time.Second, Template: pinned, Seed: s.seed}),
	}
	for _, w := range s.work {
		s.stopWork = append(s.stopWork, background(ctx, w.Run))
	}
	for _, p := range s.probes.all() {
		s.stopWork = append(s.stopWork, background(ctx, p.Run))
	}
	return nil
}

// begin starts the load.
func (s *stage) begin(ctx context.Context, namespace string) {
	s.load = load.New(load.Config{Client: s.clients, Namespace: namespace, Writers: writers, Rate: s.rate, Seed: s.seed})
	s.stopLoad = background(ctx, s.load.Run)
}

// nodesOf makes simulated nodes join, with the token that the deployment created for its own nodes.
func (s *stage) nodesOf(ctx context.Context, nats bus.Config, log *slog.Logger) error {
	token, err := s.token(ctx)
	if err != nil {
		return err
	}
	bootstrap := filepath.Join(s.dir, "bootstrap-kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: u, user: {token: %s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, s.config.Host, base64.StdEncoding.EncodeToString(s.config.CAData), token)
	if err := os.WriteFile(bootstrap, []byte(text), 0o600); err != nil {
		return err
	}
	nodes, err := fleet.New(fleet.Config{Nodes: s.nodes, Bootstrap: bootstrap, Server: s.config.Host, Bus: nats,
		Dir: filepath.Join(s.dir, "nodes"), Logger: log})
	if err != nil {
		return err
	}
	s.beside(ctx, nodes.Run)
	return nil
}

// token returns a bootstrap token of the deployment.
func (s *stage) token(ctx context.Context) (string, error) {
	secrets, err := s.clients.CoreV1().Secrets(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("reading the bootstrap token: %w", err)
	}
	// The deployment renews its tokens; the one that expires last is the latest.
	token, end := "", ""
	for _, secret := range secrets.Items {
		if until := string(secret.Data["expiration"]); secret.Type == corev1.SecretTypeBootstrapToken && until > end {
			token, end = fmt.Sprintf("%s.%s", secret.Data["token-id"], secret.Data["token-secret"]), until
		}
	}
	if token == "" {
		return "", errors.New("the deployment has no bootstrap token")
	}
	return token, nil
}

func (s *stage) namespace(ctx context.Context, name string) error {
	return until(ctx, recovery, func(ctx context.Context) error {
		_, err := s.clients.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// beside runs a function until the stage is closed.
func (s *stage) beside(ctx context.Context, run func(ctx context.Context) error) {
	s.stops = append(s.stops, background(ctx, run))
}

// background runs a function until stop is called, which returns its error.
func background(ctx context.Context, run func(ctx context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	return sync.OnceValue(func() error { cancel(); return <-done })
}

// close ends everything; after a failure, it saves the logs of the containers.
func (s *stage) close(failed bool) error {
	errs := []error{s.stop()}
	for _, stop := range slices.Backward(s.stops) {
		errs = append(errs, stop())
	}
	ctx, cancel := context.WithTimeout(context.Background(), recovery)
	defer cancel()
	if failed && s.project != nil {
		said, err := s.project.Logs(ctx, 2000)
		errs = append(errs, err, os.WriteFile(filepath.Join(s.dir, "containers.log"), []byte(said), 0o600))
	}
	if s.project != nil && !s.keep {
		errs = append(errs, s.project.Down(ctx))
	}
	return errors.Join(append(errs, s.logs.Close())...)
}

// stop stops what changes objects.
func (s *stage) stop() error {
	errs := []error{s.stopLoad()}
	for _, stop := range s.stopWork {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}

// recovered waits until users have written, read, and got a pod since the given time, and once more
// after that, for a while.
func (s *stage) recovered(ctx context.Context, since time.Time) error {
	var worked time.Time // when everything had worked once
	return until(ctx, recovery, func(context.Context) error {
		from := cmp.Or(worked, since)
		for _, p := range s.probes.all() {
			if o := p.Outage(); !p.Well(from) {
				return fmt.Errorf("no %s for %s; the latest of %d failures: %w", p.Name, seconds(o.Longest), o.Failures, cmp.Or(o.Last, errors.New("none")))
			}
		}
		if worked.IsZero() {
			worked = time.Now()
		}
		if held := time.Since(worked); held < well {
			return fmt.Errorf("everything has worked for %s only", seconds(held))
		}
		return nil
	})
}

// happen injects a fault and measures its effect.
func (s *stage) happen(ctx context.Context, f fault, results *report) error {
	for _, p := range s.probes.all() {
		p.Mark()
	}
	began := time.Now()
	err := f.happen(ctx, s)
	if err == nil {
		err = s.recovered(ctx, time.Now())
	}
	write, read, pod := s.probes.write.Outage(), s.probes.read.Outage(), s.probes.pod.Outage()
	results.add(f.name, write.Longest, read.Longest, pod.Longest, err == nil)
	fmt.Printf("%s  %-46s %6s  no write %s (%d of %d failed), no read %s, no new pod %s\n", time.Now().UTC().Format(time.TimeOnly), f.name,
		seconds(time.Since(began)), seconds(write.Longest), write.Failures, write.Tries, seconds(read.Longest), seconds(pod.Longest))
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	return nil
}

// verify stops the users and checks the invariants.
func (s *stage) verify(ctx context.Context) error {
	errs := []error{s.stop()}
	counts := s.load.Counts()
	for _, load := range s.early {
		counts = counts.Plus(load.Counts())
	}
	fmt.Printf("%d writes acknowledged, %d with an unknown outcome, %d refused; %d changes of Deployments, %d of them on real nodes\n",
		counts.Acknowledged, counts.Unknown, counts.Refused, s.work[0].Changes()+s.work[1].Changes(), s.work[1].Changes())
	settled := time.Now()
	for _, w := range s.work {
		errs = append(errs, until(ctx, settling, w.Settled), w.Check())
	}
	fmt.Printf("everything reached its desired state after %s\n", seconds(time.Since(settled)))
	return errors.Join(append(errs,
		until(ctx, settling, s.load.Check),
		until(ctx, settling, s.followers.Differences),
		until(ctx, settling, s.doubled))...)
}

// until retries until there is no error, for at most limit, and prints every 30 seconds what it
// waits for.
func until(ctx context.Context, limit time.Duration, try func(ctx context.Context) error) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var before error
	for logged := began; ; {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if time.Since(logged) > 30*time.Second {
			logged = time.Now()
			fmt.Printf("          after %s still: %v\n", seconds(time.Since(began)), err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", seconds(time.Since(began)), cmp.Or(before, err)) // the last error may be the end of ctx
		case <-time.After(200 * time.Millisecond):
		}
		before = err
	}
}
