{{/*
The pod template of a component. It takes
  root, component, values  the chart, and the component's name and block of values
  own                      parts specific to the component: command, args, env, ports, probes,
                           lifecycle, volumeMounts, volumes, annotations, hostNetwork, privileged,
                           before (a run of the same program before the container: name, args, volumeMounts)
*/}}
{{- define "garboard.podTemplate" -}}
{{- $root := .root -}}
{{- $values := .values -}}
{{- $own := .own -}}
{{- with $own.Error }}{{ fail . }}{{ end -}}
metadata:
  labels:
    {{- include "garboard.podLabels" (list $root .component) | nindent 4 }}
    {{- with $values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with merge (dict) $values.podAnnotations ($own.annotations | default dict) }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "garboard.fullname" $root }}-{{ .component }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- if $own.hostNetwork }}
  hostNetwork: true
  dnsPolicy: ClusterFirstWithHostNet
  {{- end }}
  terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
  {{- with $root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  securityContext:
    {{- mergeOverwrite (fromYaml (include "garboard.podSecurityContext" $own.privileged)) $values.podSecurityContext | toYaml | nindent 4 }}
  {{- with include "garboard.affinity" . }}
  affinity:
    {{- . | nindent 4 }}
  {{- end }}
  {{- with include "garboard.topologySpreadConstraints" . }}
  topologySpreadConstraints:
    {{- . | nindent 4 }}
  {{- end }}
  {{- with $values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $own.before }}
  initContainers:
    - name: {{ .name }}
      image: {{ include "garboard.image" (list $root $values.image) | quote }}
      imagePullPolicy: {{ $values.image.pullPolicy | default $root.Values.image.pullPolicy }}
      {{- with $own.command }}
      command:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      args:
        {{- concat .args $values.extraArgs | toYaml | nindent 8 }}
      {{- with concat ($own.env | default list) $values.extraEnv }}
      env:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      resources:
        {{- toYaml $values.resources | nindent 8 }}
      securityContext:
        {{- mergeOverwrite (fromYaml (include "garboard.securityContext" $own.privileged)) $values.securityContext | toYaml | nindent 8 }}
      volumeMounts:
        {{- concat $own.volumeMounts .volumeMounts $values.extraVolumeMounts | toYaml | nindent 8 }}
  {{- end }}
  containers:
    - name: {{ .component }}
      image: {{ include "garboard.image" (list $root $values.image) | quote }}
      imagePullPolicy: {{ $values.image.pullPolicy | default $root.Values.image.pullPolicy }}
      {{- with $own.command }}
      command:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      args:
        {{- concat $own.args $values.extraArgs | toYaml | nindent 8 }}
      {{- with concat ($own.env | default list) $values.extraEnv }}
      env:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        {{- toYaml $own.ports | nindent 8 }}
      {{- toYaml $own.probes | nindent 6 }}
      {{- with $own.lifecycle }}
      lifecycle:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      resources:
        {{- toYaml $values.resources | nindent 8 }}
      securityContext:
        {{- mergeOverwrite (fromYaml (include "garboard.securityContext" $own.privileged)) $values.securityContext | toYaml | nindent 8 }}
      volumeMounts:
        {{- concat $own.volumeMounts $values.extraVolumeMounts | toYaml | nindent 8 }}
  volumes:
    {{- concat $own.volumes $values.extraVolumes | toYaml | nindent 4 }}
{{- end }}

{{/* The security context of a pod; the argument is whether its container is privileged. */}}
{{- define "garboard.podSecurityContext" -}}
{{- if . -}}
seccompProfile:
  type: RuntimeDefault
{{- else -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}
{{- end }}

{{- define "garboard.securityContext" -}}
{{- if . -}}
privileged: true
readOnlyRootFilesystem: true
{{- else -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}
{{- end }}

{{/* Affinity, plus the chart's anti-affinity unless the values already set one. */}}
{{- define "garboard.affinity" -}}
{{- $affinity := deepCopy .values.affinity -}}
{{- $how := .values.podAntiAffinity | default "none" -}}
{{- if and (ne $how "none") (not (hasKey $affinity "podAntiAffinity")) -}}
{{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" (include "garboard.selectorLabels" (list .root .component) | fromYaml)) -}}
{{- if eq $how "hard" -}}
{{- $_ := set $affinity "podAntiAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (list $term)) -}}
{{- else -}}
{{- $_ := set $affinity "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" (list (dict "weight" 100 "podAffinityTerm" $term))) -}}
{{- end -}}
{{- end -}}
{{- with $affinity }}{{ toYaml . }}{{ end -}}
{{- end }}

{{- define "garboard.topologySpreadConstraints" -}}
{{- $constraints := list -}}
{{- range .values.topologySpreadConstraints -}}
{{- $constraint := deepCopy . -}}
{{- if not (hasKey $constraint "labelSelector") -}}
{{- $_ := set $constraint "labelSelector" (dict "matchLabels" (include "garboard.selectorLabels" (list $.root $.component) | fromYaml)) -}}
{{- end -}}
{{- $constraints = append $constraints $constraint -}}
{{- end -}}
{{- with $constraints }}{{ toYaml . }}{{ end -}}
{{- end }}

{{/* Probes: (list SCHEME PORT LIVENESS-PATH READINESS-PATH). A start may take five minutes, since an
     apiserver waits for etcd. */}}
{{- define "garboard.probes" -}}
{{- $scheme := index . 0 -}}
{{- $port := index . 1 -}}
startupProbe:
  httpGet: { path: {{ index . 2 | quote }}, port: {{ $port }}, scheme: {{ $scheme }} }
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 60
readinessProbe:
  httpGet: { path: {{ index . 3 | quote }}, port: {{ $port }}, scheme: {{ $scheme }} }
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 3
livenessProbe:
  httpGet: { path: {{ index . 2 | quote }}, port: {{ $port }}, scheme: {{ $scheme }} }
  periodSeconds: 10
  timeoutSeconds: 10
  failureThreshold: 6
{{- end }}

{{/* The arguments for logging and for the connection to NATS. */}}
{{- define "garboard.commonArgs" -}}
- --log-level={{ .Values.logging.level }}
- --log-format={{ .Values.logging.format }}
- --nats-servers={{ include "garboard.nats.urls" . }}
{{- if eq .Values.nats.mode "external" }}
- --nats-ca-file=/etc/garboard/nats/ca.crt
{{- else }}
- --nats-ca-file=/etc/garboard/pki/ca.crt
{{- end }}
{{- end }}
