package upstream

import "slices"

// later are the plugins that later issues bring, and the subject of each. Each issue removes its own.
var later = map[string]string{
	"ImageLocality":        "the rest of the scheduler's plugins",
	"NodeDeclaredFeatures": "the rest of the scheduler's plugins",
	"NodeVolumeLimits":     "the rest of the scheduler's plugins",
}

// Also left out, as the objects of the cases show:
//   - spec.resourceClaims and extended resources of device classes (dynamic resource allocation);
//   - volumes of the types gcePersistentDisk, awsElasticBlockStore, iscsi and rbd outside claims, which
//     no node agent mounts (the rest of the scheduler's plugins);
//   - status.nominatedNodeName, and which pods would be preempted (preemption);
//   - scheduling gates, which keep a pod from the queue, not from a node.

// scored are the plugins whose scores are compared. Kubernetes has no others that score pods without
// the fields above.
var scored = []string{
	"TaintToleration", "NodeAffinity", "NodeResourcesFit", "PodTopologySpread", "InterPodAffinity", "NodeResourcesBalancedAllocation",
	"VolumeBinding",
}

// leftOut reports whether a later issue brings a plugin.
func leftOut(plugin string) bool {
	_, is := later[plugin]
	return is
}

// isScored reports whether the scores of a plugin are compared.
func isScored(plugin string) bool { return slices.Contains(scored, plugin) }
