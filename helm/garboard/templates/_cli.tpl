{{/* Common parts of the pods that run Garboard's command line. */}}
{{- define "garboard.cli.pod" -}}
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- include "garboard.podSecurityContext" false | nindent 2 }}
{{- with .Values.cli.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.cli.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "garboard.cli.container" -}}
image: {{ include "garboard.image" (list . .Values.cli.image) | quote }}
imagePullPolicy: {{ .Values.cli.image.pullPolicy | default .Values.image.pullPolicy }}
resources:
  {{- toYaml .Values.cli.resources | nindent 2 }}
securityContext:
  {{- include "garboard.securityContext" false | nindent 2 }}
{{- end }}

{{/* The volumes of a pod that acts as the plane's administrator. */}}
{{- define "garboard.cli.admin" -}}
{{- include "garboard.pki" (list . "admin") }}
- { name: tmp, emptyDir: { medium: Memory } }
{{- end }}
