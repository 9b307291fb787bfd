#!/usr/bin/env bash
# Writes the OpenAPI definitions of the served types from the sources of k8s.io/api. The
# packages are read-only: their model names are part of their releases.
set -euo pipefail
packages=(
	k8s.io/api/{admissionregistration,apps,authentication,authorization,autoscaling,batch,certificates,coordination,core,discovery,events,flowcontrol,networking,node,policy,rbac,resource,scheduling,storage,storagemigration}/v1
	k8s.io/api/{autoscaling/v2,scheduling/v1alpha3}
	k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1
	k8s.io/kube-aggregator/pkg/apis/apiregistration/v1
	k8s.io/metrics/pkg/apis/metrics/v1beta1
	k8s.io/apimachinery/pkg/{api/resource,apis/meta/v1,runtime,util/intstr,version}
)
header=$(mktemp)
trap 'rm -f "$header"' EXIT
go tool openapi-gen \
	--output-dir generated --output-file zz_generated.openapi.go \
	--output-pkg github.com/garboard/garboard/services/apiserver/internal/http/openapi/generated \
	--output-model-name-file zz_generated.model_name.go "${packages[@]/#/--readonly-pkg=}" \
	--go-header-file "$header" --report-filename /dev/null \
	"${packages[@]}"
