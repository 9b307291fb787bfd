// Package history keeps the pod templates that a workload has had as ControllerRevisions, so that a
// rollout can be told from the one before and be undone (Kubernetes, pkg/controller/history).
package history

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
)

// HashLabel has the hash of a revision's data (Kubernetes, ControllerRevisionHashLabel).
const HashLabel = "controller.kubernetes.io/hash"

const (
	// maxPrefix bounds what a revision's name has of its owner's, in bytes.
	maxPrefix = 223
	// nameAttempts bounds the names that Create tries. More collisions than a few are made on purpose.
	nameAttempts = 16
)

// Client reads and writes revisions.
type Client = client.Resource[*appsv1.ControllerRevision]

// Patch returns a revision's data: a strategic merge patch that gives a workload the template. It is the
// same, byte for byte, as that of Kubernetes' controllers.
func Patch(template *corev1.PodTemplateSpec) ([]byte, error) {
	data, err := json.Marshal(template)
	if err != nil {
		return nil, fmt.Errorf("encoding a pod template: %w", err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("decoding a pod template: %w", err)
	}
	fields["$patch"] = "replace"
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": fields}})
	if err != nil {
		return nil, fmt.Errorf("encoding a revision: %w", err)
	}
	return patch, nil
}

// Template returns the pod template that a revision holds.
func Template(revision *appsv1.ControllerRevision) (*corev1.PodTemplateSpec, error) {
	var data struct {
		Spec struct {
			Template *corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(revision.Data.Raw, &data); err != nil {
		return nil, fmt.Errorf("decoding the ControllerRevision %s/%s: %w", revision.Namespace, revision.Name, err)
	}
	if data.Spec.Template == nil {
		return nil, fmt.Errorf("decoding the ControllerRevision %s/%s: it has no template", revision.Namespace, revision.Name)
	}
	return data.Spec.Template, nil
}

// Of returns a revision, not yet created, of the owner that a reference names. Its labels are those of
// the template and the hash, its annotations those of the owner.
func Of(owner scheme.Object, ref metav1.OwnerReference, labels map[string]string, patch []byte, number int64,
	collisions int32) *appsv1.ControllerRevision {
	revision := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: owner.GetNamespace(), Labels: maps.Clone(labels), Annotations: maps.Clone(owner.GetAnnotations()),
			OwnerReferences: []metav1.OwnerReference{ref},
		},
		Data: runtime.RawExtension{Raw: patch}, Revision: number,
	}
	if revision.Labels == nil {
		revision.Labels = map[string]string{}
	}
	hash := hashOf(patch, collisions)
	revision.Labels[HashLabel] = hash
	revision.Name = nameOf(owner.GetName(), hash)
	return revision
}

func hashOf(data []byte, collisions int32) string {
	hash := fnv.New32()
	_, _ = hash.Write(data) // fnv's Write returns no error.
	_, _ = hash.Write(strconv.AppendInt(nil, int64(collisions), 10))
	return rand.SafeEncodeString(strconv.FormatUint(uint64(hash.Sum32()), 10))
}

func nameOf(owner, hash string) string { return owner[:min(len(owner), maxPrefix)] + "-" + hash }

// Sort sorts revisions by number, then by age and name.
func Sort(revisions []*appsv1.ControllerRevision) {
	slices.SortStableFunc(revisions, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// Equal reports whether two revisions hold the same data.
func Equal(a, b *appsv1.ControllerRevision) bool { return bytes.Equal(a.Data.Raw, b.Data.Raw) }

// Create creates a revision. If its name belongs to a revision with other data, it counts a collision and
// tries another name; after 16 it gives up. It returns the revision of the same data if there is one.
func Create(ctx context.Context, revisions Client, owner string, revision *appsv1.ControllerRevision,
	collisions *int32) (*appsv1.ControllerRevision, error) {
	revision = revision.DeepCopy()
	for range nameAttempts {
		revision.Name = nameOf(owner, hashOf(revision.Data.Raw, *collisions))
		created, err := revisions.Create(ctx, revision, metav1.CreateOptions{})
		if err == nil {
			return created, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("creating the ControllerRevision %s/%s: %w", revision.Namespace, revision.Name, err)
		}
		existing, err := revisions.Get(ctx, revision.Namespace, revision.Name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading the ControllerRevision %s/%s: %w", revision.Namespace, revision.Name, err)
		}
		if Equal(existing, revision) {
			return existing, nil
		}
		*collisions++
	}
	return nil, fmt.Errorf("creating a ControllerRevision of %s/%s: %d names belong to others", revision.Namespace, owner, nameAttempts)
}

// Renumber gives a revision another number.
func Renumber(ctx context.Context, revisions Client, revision *appsv1.ControllerRevision,
	number int64) (*appsv1.ControllerRevision, error) {
	revision = revision.DeepCopy()
	revision.Revision = number
	updated, err := revisions.Update(ctx, revision, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("numbering the ControllerRevision %s/%s: %w", revision.Namespace, revision.Name, err)
	}
	return updated, nil
}

// Truncate deletes the first count of sorted revisions that are not live. Count may be negative.
func Truncate(ctx context.Context, revisions Client, sorted []*appsv1.ControllerRevision, count int,
	live func(*appsv1.ControllerRevision) bool) error {
	for _, revision := range sorted {
		if count <= 0 {
			return nil
		}
		if live(revision) {
			continue
		}
		count--
		same := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(revision.UID))}
		err := revisions.Delete(ctx, revision.Namespace, revision.Name, same)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting the ControllerRevision %s/%s: %w", revision.Namespace, revision.Name, err)
		}
	}
	return nil
}
