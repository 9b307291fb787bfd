{{- define "garboard.name" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* The prefix of all names. It leaves room for suffixes such as -apiserver-nats-client. */}}
{{- define "garboard.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "garboard.name" .) .Release.Name -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name (include "garboard.name" .) | trunc 40 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{/* Labels that select the pods of a component: (list $ "apiserver"). They never change. */}}
{{- define "garboard.selectorLabels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "garboard.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* Labels of every object of a component. */}}
{{- define "garboard.labels" -}}
{{- $root := index . 0 -}}
{{ include "garboard.selectorLabels" . }}
app.kubernetes.io/part-of: garboard
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Labels of pods. They have no versions, so a chart upgrade that leaves pods unchanged restarts none. */}}
{{- define "garboard.podLabels" -}}
{{ include "garboard.selectorLabels" . }}
app.kubernetes.io/part-of: garboard
{{- with (index . 0).Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* An image: (list $ .Values.apiserver.image). */}}
{{- define "garboard.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- $name := printf "%s/%s" ($image.registry | default $root.Values.image.registry) $image.repository -}}
{{- if $image.digest -}}
{{ $name }}@{{ $image.digest }}
{{- else -}}
{{ $name }}:{{ $image.tag | default $root.Values.image.tag | default $root.Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* The DNS names of a Service, longest last: (list $ "apiserver"). */}}
{{- define "garboard.hosts" -}}
{{- $root := index . 0 -}}
{{- $service := printf "%s-%s" (include "garboard.fullname" $root) (index . 1) -}}
- {{ $service }}
- {{ $service }}.{{ $root.Release.Namespace }}
- {{ $service }}.{{ $root.Release.Namespace }}.svc
- {{ $service }}.{{ $root.Release.Namespace }}.svc.{{ $root.Values.clusterDomain }}
{{- end }}

{{/* The DNS names of the pods of a StatefulSet: (list $ "etcd"). */}}
{{- define "garboard.podHosts" -}}
{{- $root := index . 0 -}}
{{- $name := printf "%s-%s" (include "garboard.fullname" $root) (index . 1) -}}
- "*.{{ $name }}-headless"
- "*.{{ $name }}-headless.{{ $root.Release.Namespace }}.svc"
- "*.{{ $name }}-headless.{{ $root.Release.Namespace }}.svc.{{ $root.Values.clusterDomain }}"
{{ include "garboard.hosts" (list $root (printf "%s-headless" (index . 1))) }}
{{- end }}

{{/* URLs of the pods of a StatefulSet, comma-separated: (list $ "etcd" "https" 2379). */}}
{{- define "garboard.podURLs" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $name := printf "%s-%s" (include "garboard.fullname" $root) $component -}}
{{- $urls := list -}}
{{- range $i := until (int (index $root.Values $component).replicas) -}}
{{- $urls = append $urls (printf "%s://%s-%d.%s-headless.%s.svc.%s:%v" (index $ 2) $name $i $name $root.Release.Namespace $root.Values.clusterDomain (index $ 3)) -}}
{{- end -}}
{{ join "," $urls }}
{{- end }}

{{- define "garboard.etcd.endpoints" -}}
{{- if eq .Values.etcd.mode "builtin" }}{{ include "garboard.podURLs" (list . "etcd" "https" 2379) }}{{ else }}{{ join "," .Values.etcd.external.endpoints }}{{ end -}}
{{- end }}

{{- define "garboard.nats.urls" -}}
{{- if eq .Values.nats.mode "builtin" }}{{ include "garboard.podURLs" (list . "nats" "tls" 4222) }}{{ else }}{{ join "," .Values.nats.external.urls }}{{ end -}}
{{- end }}

{{- define "garboard.apiserver.url" -}}
https://{{ include "garboard.fullname" . }}-apiserver.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}:{{ .Values.apiserver.service.port }}
{{- end }}

{{/* Names and addresses of the API, for its certificate. */}}
{{- define "garboard.apiserver.hosts" -}}
{{ include "garboard.hosts" (list . "apiserver") }}
- localhost
{{- range .Values.tls.hosts }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{/* The name of the Secret with a consumer's files from `garboard init`: (list $ "apiserver"). */}}
{{- define "garboard.secret" -}}
{{- $root := index . 0 -}}
{{- if eq $root.Values.tls.mode "existingSecret" -}}
{{ $root.Values.tls.existingSecretPrefix }}-{{ index . 1 }}
{{- else -}}
{{ include "garboard.fullname" $root }}-{{ index . 1 }}
{{- end -}}
{{- end }}

{{/* The components that the chart runs, as a JSON list. */}}
{{- define "garboard.components" -}}
{{- $all := list "apiserver" "controllers" "scheduler" -}}
{{- if .Values.nodes.enabled }}{{ $all = append $all "nodes" }}{{ end -}}
{{- if eq .Values.etcd.mode "builtin" }}{{ $all = append $all "etcd" }}{{ end -}}
{{- if eq .Values.nats.mode "builtin" }}{{ $all = append $all "nats" }}{{ end -}}
{{ toJson $all }}
{{- end }}
