package history

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/scheme"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func owner(name string) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{"cause": "c"}}}
}

func revisionOf(t *testing.T, image string, number int64, collisions int32) *appsv1.ControllerRevision {
	t.Helper()
	patch, err := Patch(&corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}}})
	if err != nil {
		t.Fatal(err)
	}
	return Of(owner("web"), metav1.OwnerReference{}, map[string]string{"app": "web"}, patch, number, collisions)
}

// TestKubernetesData checks that data, hash and name are those of kube-controller-manager 1.37.
func TestKubernetesData(t *testing.T) {
	got := revisionOf(t, "v1", 1, 0)
	const data = `{"spec":{"template":{"$patch":"replace","metadata":{},"spec":{"containers":[{"image":"v1","name":"c","resources":{}}]}}}}`
	if string(got.Data.Raw) != data {
		t.Errorf("got data %s", got.Data.Raw)
	}
	if got.Name != "web-"+got.Labels[HashLabel] || got.Labels["app"] != "web" || got.Annotations["cause"] != "c" || got.Namespace != "default" {
		t.Errorf("got %+v", got.ObjectMeta)
	}
	// FNV-1 over the data and the digit, written with the letters that make no words.
	if got.Labels[HashLabel] != "68cb599779" {
		t.Errorf("got hash %s", got.Labels[HashLabel])
	}
	if other := revisionOf(t, "v1", 1, 1); other.Name == got.Name || !Equal(other, got) {
		t.Errorf("a collision gives %s", other.Name)
	}
	template, err := Template(got)
	if err != nil || template.Spec.Containers[0].Image != "v1" {
		t.Errorf("the revision holds %+v: %v", template, err)
	}
}

func TestLongNames(t *testing.T) {
	got := Of(owner(strings.Repeat("x", 253)), metav1.OwnerReference{}, nil, []byte("{}"), 1, 0)
	if len(got.Name) > 253 || !strings.HasPrefix(got.Name, strings.Repeat("x", 223)+"-") {
		t.Errorf("got a name of %d bytes", len(got.Name))
	}
}

func TestBadRevisions(t *testing.T) {
	for _, data := range []string{"", "null", "{}", `{"spec":{}}`, `{"spec":{"template":7}}`} {
		revision := &appsv1.ControllerRevision{}
		revision.Data.Raw = []byte(data)
		if template, err := Template(revision); err == nil {
			t.Errorf("%q gave %+v", data, template)
		}
	}
}

func TestSort(t *testing.T) {
	now := time.Now()
	at := func(name string, number int64, age time.Duration) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age))}, Revision: number}
	}
	revisions := []*appsv1.ControllerRevision{at("e", 3, 0), at("c", 2, 0), at("d", 2, 0), at("b", 2, time.Hour), at("a", 1, 0)}
	Sort(revisions)
	var names string
	for _, revision := range revisions {
		names += revision.Name
	}
	if names != "abcde" {
		t.Errorf("got the order %s", names)
	}
}

func TestCreate(t *testing.T) {
	c := fake.New(scheme.New())
	revisions := client.Of[*appsv1.ControllerRevision](c)
	var collisions int32
	create := func(image string) *appsv1.ControllerRevision {
		created, err := Create(t.Context(), revisions, "web", revisionOf(t, image, 1, collisions), &collisions)
		if err != nil {
			t.Fatal(err)
		}
		return created
	}
	first := create("v1")
	if again := create("v1"); again.UID != first.UID || collisions != 0 {
		t.Errorf("the same data gave another revision, with %d collisions", collisions)
	}
	taken := revisionOf(t, "v2", 1, 0)
	taken.Data.Raw = []byte(`{"foreign":true}`)
	c.Load(taken)
	if second := create("v2"); second.Name != revisionOf(t, "v2", 1, 1).Name || collisions != 1 {
		t.Errorf("got %s, with %d collisions", second.Name, collisions)
	}
	for i := range int32(nameAttempts) {
		taken := revisionOf(t, "v3", 1, i)
		taken.Data.Raw = []byte(`{"foreign":true}`)
		c.Load(taken)
	}
	collisions = 0
	if created, err := Create(t.Context(), revisions, "web", revisionOf(t, "v3", 1, 0), &collisions); err == nil {
		t.Errorf("created %s although all names are taken", created.Name)
	}
}

func TestTruncateAndRenumber(t *testing.T) {
	c := fake.New(scheme.New())
	revisions := client.Of[*appsv1.ControllerRevision](c)
	for i := range int64(5) {
		if _, err := revisions.Create(t.Context(), revisionOf(t, fmt.Sprint("v", i), i, 0), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	list := func(ctx context.Context) []*appsv1.ControllerRevision {
		all, _, err := revisions.List(ctx, "", metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		Sort(all)
		return all
	}
	live := func(r *appsv1.ControllerRevision) bool { return r.Revision == 1 }
	if err := Truncate(t.Context(), revisions, list(t.Context()), 2, live); err != nil {
		t.Fatal(err)
	}
	if err := Truncate(t.Context(), revisions, list(t.Context()), -3, live); err != nil {
		t.Fatal(err)
	}
	left := list(t.Context())
	numbers := func(all []*appsv1.ControllerRevision) (numbers []int64) {
		for _, revision := range all {
			numbers = append(numbers, revision.Revision)
		}
		return numbers
	}
	if got := numbers(left); !slices.Equal(got, []int64{1, 3, 4}) {
		t.Errorf("the revisions %v are left", got)
	}
	if _, err := Renumber(t.Context(), revisions, left[0], 9); err != nil {
		t.Fatal(err)
	}
	if got := numbers(list(t.Context())); !slices.Equal(got, []int64{3, 4, 9}) {
		t.Errorf("the revisions are %v", got)
	}
}
