package upstream

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	libcontainercgroups "github.com/opencontainers/cgroups"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fielderrors "k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	qos "k8s.io/kubernetes/pkg/apis/core/helper/qos"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/apis/core/validation"

	"github.com/garboard/garboard/services/nodeagent/internal/admit"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime/conformance"
)

var (
	seeds  = flag.Int("seeds", 1, "number of rounds of random pods")
	first  = flag.Uint64("seed", 1, "seed of the first round")
	pods   = flag.Int("pods", 400, "number of random pods in a round")
	only   = flag.String("features", "", "comma-separated features to compare alone; all if empty")
	report = flag.String("report", "", "file that receives all differences, with an example of each")
	saveTo = flag.String("vectors", "", "folder that receives the test data of the node agent")
)

// group holds the differences in one field.
type group struct {
	count   int
	first   conformance.Difference
	example conformance.Case
}

// comparison runs pods on both sides.
type comparison struct {
	t       *testing.T
	m       *conformance.Machine
	kubelet *Kubelet
	agent   *conformance.Agent
	sizes   []string

	cases, invalid, refused int
	groups                  map[string]*group
	kept                    *collector
}

// TestPods compares the life of each boundary pod and of random pods.
func TestPods(t *testing.T) {
	c := newComparison(t)
	ctx := t.Context()
	for _, f := range features() {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), f.name) {
			continue
		}
		for choice := range f.choices {
			c.kept.always = *first == 1
			pod := plain("")
			f.set(pod, choice, rand.New(rand.NewPCG(uint64(choice), 7)))
			if !c.compare(ctx, pod) {
				t.Logf("not compared: %s %d", f.name, choice)
			}
			if !f.debugs {
				continue
			}
			pod = plain("")
			debug(pod)
			f.inside(ephemeralOf(pod)[0], choice)
			if !c.compare(ctx, pod) {
				t.Logf("not compared: %s %d in an ephemeral container", f.name, choice)
			}
		}
	}
	for seed := range uint64(*seeds) {
		r := rand.New(rand.NewPCG(*first+seed, 1))
		c.kept.always, c.kept.closed = false, seed != 0 // Test data does not depend on the number of rounds.
		for range *pods {
			if *only == "" {
				c.compare(ctx, randomPod(r))
			}
		}
	}
	c.conclude()
}

// randomPod combines features.
func randomPod(r *rand.Rand) *corev1.Pod {
	pod, all := plain(""), features()
	for _, f := range shape()[:shapes] {
		if r.IntN(3) == 0 {
			f.set(pod, r.IntN(f.choices), r)
		}
	}
	for range 1 + r.IntN(14) {
		f := all[shapes+r.IntN(len(all)-shapes)]
		f.set(pod, r.IntN(f.choices), r)
	}
	return pod
}

func newComparison(t *testing.T) *comparison {
	t.Helper()
	t.Setenv("HOME", t.TempDir()) // The kubelet reads the user's registry credentials.
	m := conformance.NewMachine(t.TempDir())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	c := &comparison{t: t, m: m, sizes: libcontainercgroups.HugePageSizes(), groups: map[string]*group{}, kept: newCollector()}
	slices.Sort(c.sizes)
	var err error
	if c.agent, err = conformance.NewAgent(t.Context(), m, c.sizes); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.agent.Close() })
	if c.kubelet, err = NewKubelet(t, t.Context(), m); err != nil {
		t.Fatal(err)
	}
	return c
}

// admitted returns the pod as the apiserver hands it to a node; nil if it does not accept the pod.
func admitted(pod *corev1.Pod) (*corev1.Pod, fielderrors.ErrorList) {
	legacyscheme.Scheme.Default(pod)
	debugged := &core.Pod{}
	if err := legacyscheme.Scheme.Convert(pod, debugged, nil); err != nil {
		return nil, fielderrors.ErrorList{fielderrors.InternalError(nil, err)}
	}
	ephemeral := pod.Spec.EphemeralContainers
	pod.Spec.EphemeralContainers = nil
	defer func() { pod.Spec.EphemeralContainers = ephemeral }()
	internal := &core.Pod{}
	if err := legacyscheme.Scheme.Convert(pod, internal, nil); err != nil {
		return nil, fielderrors.ErrorList{fielderrors.InternalError(nil, err)}
	}
	internal.UID, internal.Spec.ServiceAccountName = pod.UID, pod.Spec.ServiceAccountName
	opts := podutil.GetValidationOptionsFromPodSpecAndMeta(&internal.Spec, nil, &internal.ObjectMeta, nil)
	if errs := validation.ValidatePodCreate(internal, opts); len(errs) > 0 {
		return nil, errs
	}
	if len(ephemeral) > 0 {
		now := internal.DeepCopy()
		now.Spec.EphemeralContainers, now.ResourceVersion = debugged.Spec.EphemeralContainers, "1"
		opts := podutil.GetValidationOptionsFromPodSpecAndMeta(&now.Spec, &internal.Spec, &now.ObjectMeta, &internal.ObjectMeta)
		if errs := validation.ValidatePodEphemeralContainersUpdate(now, internal, opts); len(errs) > 0 {
			return nil, errs
		}
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSClass(qos.ComputePodQOS(internal))}
	return pod, nil
}

// compare runs one pod on both sides. It reports whether the pod could be compared.
func (c *comparison) compare(ctx context.Context, pod *corev1.Pod) bool {
	c.t.Helper()
	c.cases++
	pod.UID = types.UID(fmt.Sprintf("0b1ec7-%04d", c.cases))
	pod, errs := admitted(pod)
	if pod == nil {
		c.invalid++
		if *only != "" {
			c.t.Log(errs.ToAggregate())
		}
		return false
	}
	unsupported := admit.Unsupported(pod)
	for _, debugger := range pod.Spec.EphemeralContainers {
		unsupported = append(unsupported, admit.UnsupportedEphemeral(pod, debugger.Name)...)
	}
	if len(unsupported) > 0 {
		c.refused++
		return false
	}
	asked := conformance.Case{HugePageSizes: c.sizes}
	var err error
	if asked.Pod, err = json.Marshal(pod); err != nil {
		c.t.Fatal(err)
	}
	theirs, err := conformance.Run(ctx, c.m, c.kubelet, pod.DeepCopy())
	if err != nil {
		c.t.Fatalf("the kubelet: %v\n%s", err, asked.Pod)
	}
	ours, err := conformance.Run(ctx, c.m, c.agent, pod.DeepCopy())
	if err != nil {
		c.t.Fatalf("the node agent: %v\n%s", err, asked.Pod)
	}
	seen := map[string]bool{}
	for _, d := range append(conformance.Compare(pod, ours, theirs), podCgroup(pod, ours)...) {
		if leftOut(d) || seen[d.Path] {
			continue
		}
		seen[d.Path] = true
		if c.groups[d.Path] == nil {
			c.groups[d.Path] = &group{first: d, example: asked}
		}
		c.groups[d.Path].count++
	}
	if len(seen) == 0 {
		c.kept.offer(conformance.Vector{Case: asked, Answer: theirs})
	}
	return true
}

// conclude fails for each difference, and writes the files that were asked for.
func (c *comparison) conclude() {
	c.t.Logf("%d pods, %d of them invalid, %d refused, %d kinds of differences", c.cases, c.invalid, c.refused, len(c.groups))
	var paths []string
	for path := range c.groups {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	var page strings.Builder
	for _, path := range paths {
		g := c.groups[path]
		fmt.Fprintf(&page, "%d\t%s\n\t\tgot  %s\n\t\twant %s\n\t\t%s\n", g.count, path, g.first.Ours, g.first.Theirs, g.example.Pod)
		c.t.Errorf("%d × %s", g.count, g.first)
	}
	if *report != "" {
		if err := os.WriteFile(*report, []byte(page.String()), 0o600); err != nil {
			c.t.Error(err)
		}
	}
	if *saveTo != "" {
		if err := c.kept.write(filepath.Join(*saveTo, "pods.jsonl.gz")); err != nil {
			c.t.Error(err)
		}
	}
}
