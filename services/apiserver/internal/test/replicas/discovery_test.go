package replicas_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// discoveryPatience is how long discovery may take on a busy machine; how long it does take is logged.
const discoveryPatience = 5 * harness.Patience

// aggregated is the media type of aggregated discovery.
const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// defined is a kind that a CustomResourceDefinition brings.
type defined struct{ group, plural string }

func (d defined) name() string { return d.plural + "." + d.group }

// definition returns the kind's CustomResourceDefinition.
func (d defined) definition() string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%s"},"spec":{
		"group":"%s","scope":"Namespaced","names":{"plural":"%s","singular":"one%s","kind":"%s","shortNames":["x%s"]},
		"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`,
		d.name(), d.group, d.plural, d.plural, "K"+d.plural, d.plural)
}

// read reads a document of a replica; false if there is none.
func (r *replicas) read(i int, path, accept string, into any) bool {
	r.t.Helper()
	header := map[string]string{}
	if accept != "" {
		header["Accept"] = accept
	}
	res, body := r.servers[i].Exchange(r.servers[i].Admin(), http.MethodGet, path, "", header)
	if res.StatusCode == http.StatusNotFound {
		return false
	}
	if res.StatusCode != http.StatusOK {
		r.t.Fatalf("reading %s of replica %d: %d %s", path, i, res.StatusCode, body)
	}
	if err := json.Unmarshal([]byte(body), into); err != nil {
		r.t.Fatalf("reading %s of replica %d: %v", path, i, err)
	}
	return true
}

// listedBy returns the names of the kinds with their status that the old documents of a replica list, and
// those of the aggregated one, for some groups.
func (r *replicas) listedBy(i int, groups []string) (old, whole []string) {
	r.t.Helper()
	note := func(to *[]string, group, resource string) { *to = append(*to, resource+"."+group) }
	var all metav1.APIGroupList
	r.read(i, "/apis", "application/json", &all)
	for _, group := range all.Groups {
		var one metav1.APIGroup
		var resources metav1.APIResourceList
		if !slices.Contains(groups, group.Name) || !r.read(i, "/apis/"+group.Name, "application/json", &one) ||
			one.PreferredVersion.Version != "v1" || !r.read(i, "/apis/"+group.Name+"/v1", "application/json", &resources) {
			continue
		}
		for _, resource := range resources.APIResources {
			note(&old, group.Name, resource.Name)
		}
	}
	var list apidiscoveryv2.APIGroupDiscoveryList
	r.read(i, "/apis", aggregated, &list)
	if list.Kind != "APIGroupDiscoveryList" {
		r.t.Fatalf("replica %d returns %q as aggregated discovery", i, list.Kind)
	}
	for _, group := range list.Items {
		if !slices.Contains(groups, group.Name) {
			continue
		}
		for _, version := range group.Versions {
			for _, resource := range version.Resources {
				note(&whole, group.Name, resource.Resource)
				for _, part := range resource.Subresources {
					note(&whole, group.Name, resource.Resource+"/"+part.Subresource)
				}
			}
		}
	}
	slices.Sort(old)
	slices.Sort(whole)
	return old, whole
}

// awaitDiscovery waits until every replica's old and aggregated documents list exactly these kinds of their
// groups, and logs how long after since each of them did.
func (r *replicas) awaitDiscovery(what string, since time.Time, groups []string, kinds ...defined) {
	r.t.Helper()
	var want []string
	for _, kind := range kinds {
		want = append(want, kind.name(), kind.plural+"/status."+kind.group)
	}
	slices.Sort(want)
	took := make([]time.Duration, len(r.servers))
	wrong := func() (faults []string) {
		for i := range r.servers {
			if took[i] > 0 {
				continue
			}
			old, whole := r.listedBy(i, groups)
			if slices.Equal(old, want) && slices.Equal(whole, want) {
				took[i] = time.Since(since)
				continue
			}
			faults = append(faults, fmt.Sprintf("replica %d lists %d names, aggregated %d, want %d", i, len(old), len(whole), len(want)))
		}
		return faults
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for faults := wrong(); len(faults) > 0; faults = wrong() {
		if time.Since(since) > discoveryPatience {
			r.t.Fatalf("discovery of %s: %s", what, strings.Join(faults, "; "))
		}
		<-tick.C
	}
	for i := range took {
		took[i] = took[i].Round(time.Millisecond)
	}
	r.t.Logf("discovery of %s was right at the replicas after %v", what, took)
}

// define creates the definition of a kind at a replica.
func (r *replicas) define(i int, kind defined) error {
	_, err := r.clients[i].Discovery().RESTClient().Post().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").
		SetHeader("Content-Type", "application/json").Body([]byte(kind.definition())).DoRaw(r.t.Context())
	return err
}

// TestDiscoveryOfDefinitions: what discovery shows changes on every replica with the definitions: with one,
// with a hundred that are created at once at all replicas, and when they are deleted.
func TestDiscoveryOfDefinitions(t *testing.T) {
	t.Parallel()
	r := startReplicas(t, 3, nil)
	first := defined{group: "one.example.com", plural: "things"}
	since := time.Now()
	if err := r.define(0, first); err != nil {
		t.Fatal(err)
	}
	r.awaitDiscovery("one definition", since, []string{first.group}, first)

	const many = 100
	groups := []string{first.group}
	kinds := []defined{first}
	for i := range many {
		group := fmt.Sprintf("group%d.example.com", i%10)
		kinds = append(kinds, defined{group: group, plural: fmt.Sprintf("kind%ds", i)})
		if !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
	}
	since = time.Now()
	var all sync.WaitGroup
	for i, kind := range kinds[1:] {
		all.Go(func() {
			if err := r.define(i%len(r.servers), kind); err != nil {
				t.Errorf("defining %s: %v", kind.name(), err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	t.Logf("%d definitions were created in %v", many, time.Since(since).Round(time.Millisecond))
	r.awaitDiscovery(fmt.Sprint(many, " more definitions"), since, groups, kinds...)

	since = time.Now()
	if _, err := r.clients[1].Discovery().RESTClient().Delete().
		AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + first.name()).DoRaw(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.awaitDiscovery("a deletion", since, groups, kinds[1:]...)
}
