package core

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
)

// Node defines the kind Node.
func Node() *kinds.Definition {
	return kinds.Of[*corev1.Node]{
		Columns: nodeColumns(),
		Level:   kinds.Full,
		Default: defaultNode,
		Create: func(n *corev1.Node) {
			dropUnusedNodeFields(n, &corev1.Node{})
			n.Status.Config = nil
		},
		Validate: validateNode,
		Update: kinds.ChangeOf[*corev1.Node]{
			Prepare: func(n, old *corev1.Node) {
				n.Status = *old.Status.DeepCopy()
				dropUnusedNodeFields(n, old)
			},
			Validate: func(n, old *corev1.Node) field.ErrorList {
				return append(validateNode(n), validateNodeUpdate(n, old)...)
			},
		},
		Subresources: map[string]kinds.ChangeOf[*corev1.Node]{"status": {
			Prepare: func(n, old *corev1.Node) {
				n.Spec = *old.Spec.DeepCopy()
				if old.Status.Config == nil {
					n.Status.Config = nil
				}
			},
			Validate: validateNodeUpdate,
		}},
		Warnings:    nodeWarnings,
		FieldLabels: []string{"spec.unschedulable"},
		Fields: func(n *corev1.Node) fields.Set {
			return fields.Set{"spec.unschedulable": strconv.FormatBool(n.Spec.Unschedulable)}
		},
	}.Definition()
}

// dropUnusedNodeFields drops the fields of a removed feature and of a disabled one, unless old has them.
func dropUnusedNodeFields(n, old *corev1.Node) {
	if old.Spec.ConfigSource == nil { //nolint:staticcheck // Old nodes may have it.
		n.Spec.ConfigSource = nil //nolint:staticcheck // New nodes must not have it.
	}
	if old.Spec.PodPreemptionPolicy == nil {
		n.Spec.PodPreemptionPolicy = nil
	}
}

// nodeWarnings warns about fields that nothing reads any more, and about ranges that are not in
// canonical form.
func nodeWarnings(n *corev1.Node) []string {
	var found []string
	if n.Spec.ConfigSource != nil { //nolint:staticcheck // It is warned of.
		found = append(found, "spec.configSource: the feature is removed")
	}
	if n.Spec.DoNotUseExternalID != "" {
		found = append(found, "spec.externalID: this field is deprecated, and is unused by Kubernetes")
	}
	for i, cidr := range n.Spec.PodCIDRs {
		found = append(found, utilvalidation.GetWarningsForCIDR(field.NewPath("spec", "podCIDRs").Index(i), cidr)...)
	}
	return found
}

// defaultNode sets the defaults of a node: allocatable defaults to the capacity, and the first pod range
// is in both fields for ranges.
func defaultNode(n *corev1.Node) {
	switch s := &n.Spec; {
	case s.PodCIDR == "" && len(s.PodCIDRs) > 0:
		s.PodCIDR = s.PodCIDRs[0]
	case s.PodCIDR != "" && (len(s.PodCIDRs) == 0 || s.PodCIDRs[0] != s.PodCIDR):
		s.PodCIDRs = []string{s.PodCIDR}
	}
	podtemplate.RoundUp(n.Status.Capacity)
	if n.Status.Allocatable == nil && n.Status.Capacity != nil {
		n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	}
	podtemplate.RoundUp(n.Status.Allocatable)
}

func nodeColumns() *columns.Layout {
	info := corev1.NodeSystemInfo{}.SwaggerDoc()
	addresses := corev1.NodeStatus{}.SwaggerDoc()["addresses"]
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(),
		columns.Text("Status", "The status of the node"),
		columns.Text("Roles", "The roles of the node"),
		columns.Age(),
		columns.Text("Version", info["kubeletVersion"]),
		columns.Wide(columns.Text("Internal-IP", addresses)),
		columns.Wide(columns.Text("External-IP", addresses)),
		columns.Wide(columns.Text("OS-Image", info["osImage"])),
		columns.Wide(columns.Text("Kernel-Version", info["kernelVersion"])),
		columns.Wide(columns.Text("Container-Runtime", info["containerRuntimeVersion"])),
	}, func(n *corev1.Node, now time.Time) []any {
		system := n.Status.NodeInfo
		kernel := orUnknown(system.KernelVersion)
		if system.Architecture != "" {
			kernel += " (" + system.Architecture + ")"
		}
		return []any{
			n.Name, nodeStatus(n), roles(n), columns.AgeOf(n, now), system.KubeletVersion,
			address(n, corev1.NodeInternalIP), address(n, corev1.NodeExternalIP),
			orUnknown(system.OSImage), kernel, orUnknown(system.ContainerRuntimeVersion),
		}
	})
}

func nodeStatus(n *corev1.Node) string {
	status := "Unknown"
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		status = "NotReady"
		if c.Status == corev1.ConditionTrue {
			status = "Ready"
		}
	}
	if n.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	return status
}

// roles returns a node's roles according to its labels.
func roles(n *corev1.Node) string {
	var found []string
	for key, value := range n.Labels {
		role, ok := strings.CutPrefix(key, "node-role.kubernetes.io/")
		if !ok && key == "kubernetes.io/role" {
			role = value
		}
		if (ok || key == "kubernetes.io/role") && role != "" && !slices.Contains(found, role) {
			found = append(found, role)
		}
	}
	slices.Sort(found)
	return columns.OrNone(strings.Join(found, ","))
}

func address(n *corev1.Node, kind corev1.NodeAddressType) string {
	for _, a := range n.Status.Addresses {
		if a.Type == kind {
			return a.Address
		}
	}
	return columns.None
}

func orUnknown(value string) string {
	if value == "" {
		return columns.Unknown
	}
	return value
}
