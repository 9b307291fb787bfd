// Package podtemplate names pod templates: a hash of a template distinguishes the objects that were made
// from it.
package podtemplate

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/dump"
)

// Hash returns a short name for a pod template. A collision shows as a name that is already taken;
// counting collisions in avoids the next. It is Kubernetes' own hash (pkg/controller.ComputeHash), so
// Kubernetes and these controllers accept each other's ReplicaSets and ControllerRevisions.
func Hash(template *corev1.PodTemplateSpec, collisions *int32) string {
	hash := fnv.New32a()
	// fnv's Write returns no error.
	_, _ = fmt.Fprintf(hash, "%v", dump.ForHash(*template))
	if collisions != nil {
		var count [8]byte
		binary.LittleEndian.PutUint32(count[:], uint32(*collisions))
		_, _ = hash.Write(count[:])
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(hash.Sum32()), 10))
}
