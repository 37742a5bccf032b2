define internal void @micro_edge(ptr noalias readonly %a, ptr noalias readonly %b, ptr noalias %c, i64 %b_stride, i64 %ldc, i64 %steps, i1 %first, ptr %prefetch, i64 %prefetch_step, i64 %rows, i64 %columns) noinline nounwind {
entry:
  %count = trunc i64 %columns to i32
  %count_one = insertelement <8 x i32> poison, i32 %count, i32 0
  %count_all = shufflevector <8 x i32> %count_one, <8 x i32> poison, <8 x i32> zeroinitializer
  %mask = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %count_all
  %last = sub i64 %rows, 1
  %row0 = call i64 @llvm.umin.i64(i64 %last, i64 0)
  %a_row0_start = mul i64 %row0, 256
  %a_row0 = getelementptr float, ptr %a, i64 %a_row0_start
  %row1 = call i64 @llvm.umin.i64(i64 %last, i64 1)
  %a_row1_start = mul i64 %row1, 256
  %a_row1 = getelementptr float, ptr %a, i64 %a_row1_start
  %no_steps = icmp eq i64 %steps, 0
  br i1 %no_steps, label %done, label %step
step:
  %left = phi i64 [ %steps, %entry ], [ %left_next, %step ]
  %offset = phi i64 [ 0, %entry ], [ %offset_next, %step ]
  %b_at = phi ptr [ %b, %entry ], [ %b_at_next, %step ]
  %line = phi ptr [ %prefetch, %entry ], [ %line_next, %step ]
  %sum0_0 = phi <8 x float> [ zeroinitializer, %entry ], [ %sum0_0_next, %step ]
  %sum0_1 = phi <8 x float> [ zeroinitializer, %entry ], [ %sum0_1_next, %step ]
  %sum1_0 = phi <8 x float> [ zeroinitializer, %entry ], [ %sum1_0_next, %step ]
  %sum1_1 = phi <8 x float> [ zeroinitializer, %entry ], [ %sum1_1_next, %step ]
  %line_row0_bytes = mul i64 %prefetch_step, 0
  %line_row0 = getelementptr i8, ptr %line, i64 %line_row0_bytes
  %line_row0_63 = getelementptr i8, ptr %line_row0, i64 63
  call void @llvm.prefetch.p0(ptr %line_row0_63, i32 0, i32 2, i32 1)
  %line_next_bytes = mul i64 %prefetch_step, 1
  %line_next = getelementptr i8, ptr %line, i64 %line_next_bytes
  %a0_0_at = getelementptr float, ptr %a_row0, i64 %offset
  %a0_1_at = getelementptr float, ptr %a_row1, i64 %offset
  %b0_0_at = getelementptr float, ptr %b_at, i64 0
  %b0_0 = load <8 x float>, ptr %b0_0_at, align 4
  %b0_1_at = getelementptr float, ptr %b_at, i64 8
  %b0_1 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr align 4 %b0_1_at, <8 x i1> %mask, <8 x float> zeroinitializer)
  %a0_0 = load float, ptr %a0_0_at, align 4
  %a0_0_all_one = insertelement <8 x float> poison, float %a0_0, i32 0
  %a0_0_all = shufflevector <8 x float> %a0_0_all_one, <8 x float> poison, <8 x i32> zeroinitializer
  %sum0_0_next = call <8 x float> @llvm.fma.v8f32(<8 x float> %a0_0_all, <8 x float> %b0_0, <8 x float> %sum0_0)
  %sum0_1_next = call <8 x float> @llvm.fma.v8f32(<8 x float> %a0_0_all, <8 x float> %b0_1, <8 x float> %sum0_1)
  %a0_1 = load float, ptr %a0_1_at, align 4
  %a0_1_all_one = insertelement <8 x float> poison, float %a0_1, i32 0
  %a0_1_all = shufflevector <8 x float> %a0_1_all_one, <8 x float> poison, <8 x i32> zeroinitializer
  %sum1_0_next = call <8 x float> @llvm.fma.v8f32(<8 x float> %a0_1_all, <8 x float> %b0_0, <8 x float> %sum1_0)
  %sum1_1_next = call <8 x float> @llvm.fma.v8f32(<8 x float> %a0_1_all, <8 x float> %b0_1, <8 x float> %sum1_1)
  %b_at_next = getelementptr float, ptr %b_at, i64 16
  %offset_next = add i64 %offset, 1
  %left_next = sub i64 %left, 1
  %left_test = icmp eq i64 %left_next, 0
  br i1 %left_test, label %done, label %step
done:
  %sum0_0_total = phi <8 x float> [ zeroinitializer, %entry ], [ %sum0_0_next, %step ]
  %sum0_1_total = phi <8 x float> [ zeroinitializer, %entry ], [ %sum0_1_next, %step ]
  %sum1_0_total = phi <8 x float> [ zeroinitializer, %entry ], [ %sum1_0_next, %step ]
  %sum1_1_total = phi <8 x float> [ zeroinitializer, %entry ], [ %sum1_1_next, %step ]
  %c_row0_start = mul i64 %row0, %ldc
  %c_row0 = getelementptr float, ptr %c, i64 %c_row0_start
  %c_row1_start = mul i64 %row1, %ldc
  %c_row1 = getelementptr float, ptr %c, i64 %c_row1_start
  %first_one = insertelement <8 x i1> poison, i1 %first, i32 0
  %firsts = shufflevector <8 x i1> %first_one, <8 x i1> poison, <8 x i32> zeroinitializer
  %c0_0_at = getelementptr float, ptr %c_row0, i64 0
  %c0_0_stored = load <8 x float>, ptr %c0_0_at, align 4
  %c0_0_old = select <8 x i1> %firsts, <8 x float> zeroinitializer, <8 x float> %c0_0_stored
  %c0_0 = fadd <8 x float> %c0_0_old, %sum0_0_total
  %c0_1_at = getelementptr float, ptr %c_row0, i64 8
  %c0_1_stored = call <8 x float> @llvm.masked.load.v8f32.p0(ptr align 4 %c0_1_at, <8 x i1> %mask, <8 x float> zeroinitializer)
  %c0_1_old = select <8 x i1> %firsts, <8 x float> zeroinitializer, <8 x float> %c0_1_stored
  %c0_1 = fadd <8 x float> %c0_1_old, %sum0_1_total
  %c1_0_at = getelementptr float, ptr %c_row1, i64 0
  %c1_0_stored = load <8 x float>, ptr %c1_0_at, align 4
  %c1_0_old = select <8 x i1> %firsts, <8 x float> zeroinitializer, <8 x float> %c1_0_stored
  %c1_0 = fadd <8 x float> %c1_0_old, %sum1_0_total
  %c1_1_at = getelementptr float, ptr %c_row1, i64 8
  %c1_1_stored = call <8 x float> @llvm.masked.load.v8f32.p0(ptr align 4 %c1_1_at, <8 x i1> %mask, <8 x float> zeroinitializer)
  %c1_1_old = select <8 x i1> %firsts, <8 x float> zeroinitializer, <8 x float> %c1_1_stored
  %c1_1 = fadd <8 x float> %c1_1_old, %sum1_1_total
  store <8 x float> %c0_0, ptr %c0_0_at, align 4
  call void @llvm.masked.store.v8f32.p0(<8 x float> %c0_1, ptr align 4 %c0_1_at, <8 x i1> %mask)
  store <8 x float> %c1_0, ptr %c1_0_at, align 4
  call void @llvm.masked.store.v8f32.p0(<8 x float> %c1_1, ptr align 4 %c1_1_at, <8 x i1> %mask)
  ret void
}
