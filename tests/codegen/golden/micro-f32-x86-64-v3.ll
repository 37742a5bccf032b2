define internal void @micro(ptr noalias readonly %a, ptr noalias readonly %b, ptr noalias %c, i64 %b_stride, i64 %ldc, i64 %steps, i1 %first, ptr %prefetch, i64 %prefetch_step) noinline nounwind {
entry:
  %c_row1 = getelementptr float, ptr %c, i64 %ldc
  %c_line0_0 = getelementptr i8, ptr %c, i64 0
  call void @llvm.prefetch.p0(ptr %c_line0_0, i32 1, i32 3, i32 1)
  %c_line1_0 = getelementptr i8, ptr %c_row1, i64 0
  call void @llvm.prefetch.p0(ptr %c_line1_0, i32 1, i32 3, i32 1)
  %remainder = urem i64 %steps, 2
  %unrolled_steps = sub i64 %steps, %remainder
  br label %unrolled
unrolled:
  %left = phi i64 [ %unrolled_steps, %entry ], [ %left_next, %unrolled ]
  %a_at = phi ptr [ %a, %entry ], [ %a_at_next, %unrolled ]
  %b_at = phi ptr [ %b, %entry ], [ %b_at_next, %unrolled ]
  %line = phi ptr [ %prefetch, %entry ], [ %line_next, %unrolled ]
  %sum0_0 = phi <8 x float> [ zeroinitializer, %entry ], [ %sum0_0_next, %unrolled ]
  %sum0_1 = phi <8 x float> [ zeroinitializer, %entry ], [ %sum0_1_next, %unrolled ]
  %sum1_0 = phi <8 x float> [ zeroinitializer, %entry ], [ %sum1_0_next, %unrolled ]
  %sum1_1 = phi <8 x float> [ zeroinitializer, %entry ], [ %sum1_1_next, %unrolled ]
  %line_row0_bytes = mul i64 %prefetch_step, 0
  %line_row0 = getelementptr i8, ptr %line, i64 %line_row0_bytes
  %line_row0_63 = getelementptr i8, ptr %line_row0, i64 63
  call void @llvm.prefetch.p0(ptr %line_row0_63, i32 0, i32 2, i32 1)
  %line_0_bytes = mul i64 %prefetch_step, 1
  %line_0 = getelementptr i8, ptr %line, i64 %line_0_bytes
  %a0_0_at = getelementptr float, ptr %a_at, i64 0
  %a0_1_at = getelementptr float, ptr %a_at, i64 256
  %b0_0_at = getelementptr float, ptr %b_at, i64 0
  %b0_0 = load <8 x float>, ptr %b0_0_at, align 4
  %b0_1_at = getelementptr float, ptr %b_at, i64 8
  %b0_1 = load <8 x float>, ptr %b0_1_at, align 4
  %a0_0 = load float, ptr %a0_0_at, align 4
  %a0_0_all_one = insertelement <8 x float> poison, float %a0_0, i32 0
  %a0_0_all = shufflevector <8 x float> %a0_0_all_one, <8 x float> poison, <8 x i32> zeroinitializer
  %sum0_0_0 = call <8 x float> @llvm.fma.v8f32(<8 x float> %a0_0_all, <8 x float> %b0_0, <8 x float> %sum0_0)
  %sum0_1_0 = call <8 x float> @llvm.fma.v8f32(<8 x float> %a0_0_all, <8 x float> %b0_1, <8 x float> %sum0_1)
  %a0_1 = load float, ptr %a0_1_at, align 4
  %a0_1_all_one = insertelement <8 x float> poison, float %a0_1, i32 0
  %a0_1_all = shufflevector <8 x float> %a0_1_all_one, <8 x float> poison, <8 x i32> zeroinitializer
  %sum1_0_0 = call <8 x float> @llvm.fma.v8f32(<8 x float> %a0_1_all, <8 x float> %b0_0, <8 x float> %sum1_0)
  %sum1_1_0 = call <8 x float> @llvm.fma.v8f32(<8 x float> %a0_1_all, <8 x float> %b0_1, <8 x float> %sum1_1)
  %b_at_0 = getelementptr float, ptr %b_at, i64 16
  %a_at_0 = getelementptr float, ptr %a_at, i64 1
  %line_0_row0_bytes = mul i64 %prefetch_step, 0
  %line_0_row0 = getelementptr i8, ptr %line_0, i64 %line_0_row0_bytes
  %line_0_row0_63 = getelementptr i8, ptr %line_0_row0, i64 63
  call void @llvm.prefetch.p0(ptr %line_0_row0_63, i32 0, i32 2, i32 1)
  %line_next_bytes = mul i64 %prefetch_step, 1
  %line_next = getelementptr i8, ptr %line_0, i64 %line_next_bytes
  %a1_0_at = getelementptr float, ptr %a_at_0, i64 0
  %a1_1_at = getelementptr float, ptr %a_at_0, i64 256
  %b1_0_at = getelementptr float, ptr %b_at_0, i64 0
  %b1_0 = load <8 x float>, ptr %b1_0_at, align 4
  %b1_1_at = getelementptr float, ptr %b_at_0, i64 8
  %b1_1 = load <8 x float>, ptr %b1_1_at, align 4
  %a1_0 = load float, ptr %a1_0_at, align 4
  %a1_0_all_one = insertelement <8 x float> poison, float %a1_0, i32 0
  %a1_0_all = shufflevector <8 x float> %a1_0_all_one, <8 x float> poison, <8 x i32> zeroinitializer
  %sum0_0_next = call <8 x float> @llvm.fma.v8f32(<8 x float> %a1_0_all, <8 x float> %b1_0, <8 x float> %sum0_0_0)
  %sum0_1_next = call <8 x float> @llvm.fma.v8f32(<8 x float> %a1_0_all, <8 x float> %b1_1, <8 x float> %sum0_1_0)
  %a1_1 = load float, ptr %a1_1_at, align 4
  %a1_1_all_one = insertelement <8 x float> poison, float %a1_1, i32 0
  %a1_1_all = shufflevector <8 x float> %a1_1_all_one, <8 x float> poison, <8 x i32> zeroinitializer
  %sum1_0_next = call <8 x float> @llvm.fma.v8f32(<8 x float> %a1_1_all, <8 x float> %b1_0, <8 x float> %sum1_0_0)
  %sum1_1_next = call <8 x float> @llvm.fma.v8f32(<8 x float> %a1_1_all, <8 x float> %b1_1, <8 x float> %sum1_1_0)
  %b_at_next = getelementptr float, ptr %b_at_0, i64 16
  %a_at_next = getelementptr float, ptr %a_at_0, i64 1
  %left_next = sub i64 %left, 2
  %left_test = icmp eq i64 %left_next, 0
  br i1 %left_test, label %unrolled_end, label %unrolled
unrolled_end:
  %no_remainder = icmp eq i64 %remainder, 0
  br i1 %no_remainder, label %done, label %single
single:
  %single_left = phi i64 [ %remainder, %unrolled_end ], [ %single_left_next, %single ]
  %a_at_single = phi ptr [ %a_at_next, %unrolled_end ], [ %a_at_last, %single ]
  %b_at_single = phi ptr [ %b_at_next, %unrolled_end ], [ %b_at_last, %single ]
  %line_single = phi ptr [ %line_next, %unrolled_end ], [ %line_last, %single ]
  %sum0_0_single = phi <8 x float> [ %sum0_0_next, %unrolled_end ], [ %sum0_0_last, %single ]
  %sum0_1_single = phi <8 x float> [ %sum0_1_next, %unrolled_end ], [ %sum0_1_last, %single ]
  %sum1_0_single = phi <8 x float> [ %sum1_0_next, %unrolled_end ], [ %sum1_0_last, %single ]
  %sum1_1_single = phi <8 x float> [ %sum1_1_next, %unrolled_end ], [ %sum1_1_last, %single ]
  %line_single_row0_bytes = mul i64 %prefetch_step, 0
  %line_single_row0 = getelementptr i8, ptr %line_single, i64 %line_single_row0_bytes
  %line_single_row0_63 = getelementptr i8, ptr %line_single_row0, i64 63
  call void @llvm.prefetch.p0(ptr %line_single_row0_63, i32 0, i32 2, i32 1)
  %line_last_bytes = mul i64 %prefetch_step, 1
  %line_last = getelementptr i8, ptr %line_single, i64 %line_last_bytes
  %a2_0_at = getelementptr float, ptr %a_at_single, i64 0
  %a2_1_at = getelementptr float, ptr %a_at_single, i64 256
  %b2_0_at = getelementptr float, ptr %b_at_single, i64 0
  %b2_0 = load <8 x float>, ptr %b2_0_at, align 4
  %b2_1_at = getelementptr float, ptr %b_at_single, i64 8
  %b2_1 = load <8 x float>, ptr %b2_1_at, align 4
  %a2_0 = load float, ptr %a2_0_at, align 4
  %a2_0_all_one = insertelement <8 x float> poison, float %a2_0, i32 0
  %a2_0_all = shufflevector <8 x float> %a2_0_all_one, <8 x float> poison, <8 x i32> zeroinitializer
  %sum0_0_last = call <8 x float> @llvm.fma.v8f32(<8 x float> %a2_0_all, <8 x float> %b2_0, <8 x float> %sum0_0_single)
  %sum0_1_last = call <8 x float> @llvm.fma.v8f32(<8 x float> %a2_0_all, <8 x float> %b2_1, <8 x float> %sum0_1_single)
  %a2_1 = load float, ptr %a2_1_at, align 4
  %a2_1_all_one = insertelement <8 x float> poison, float %a2_1, i32 0
  %a2_1_all = shufflevector <8 x float> %a2_1_all_one, <8 x float> poison, <8 x i32> zeroinitializer
  %sum1_0_last = call <8 x float> @llvm.fma.v8f32(<8 x float> %a2_1_all, <8 x float> %b2_0, <8 x float> %sum1_0_single)
  %sum1_1_last = call <8 x float> @llvm.fma.v8f32(<8 x float> %a2_1_all, <8 x float> %b2_1, <8 x float> %sum1_1_single)
  %b_at_last = getelementptr float, ptr %b_at_single, i64 16
  %a_at_last = getelementptr float, ptr %a_at_single, i64 1
  %single_left_next = sub i64 %single_left, 1
  %single_left_test = icmp eq i64 %single_left_next, 0
  br i1 %single_left_test, label %done, label %single
done:
  %sum0_0_single_total = phi <8 x float> [ %sum0_0_next, %unrolled_end ], [ %sum0_0_last, %single ]
  %sum0_1_single_total = phi <8 x float> [ %sum0_1_next, %unrolled_end ], [ %sum0_1_last, %single ]
  %sum1_0_single_total = phi <8 x float> [ %sum1_0_next, %unrolled_end ], [ %sum1_0_last, %single ]
  %sum1_1_single_total = phi <8 x float> [ %sum1_1_next, %unrolled_end ], [ %sum1_1_last, %single ]
  %first_one = insertelement <8 x i1> poison, i1 %first, i32 0
  %firsts = shufflevector <8 x i1> %first_one, <8 x i1> poison, <8 x i32> zeroinitializer
  %c0_0_at = getelementptr float, ptr %c, i64 0
  %c0_0_stored = load <8 x float>, ptr %c0_0_at, align 4
  %c0_0_old = select <8 x i1> %firsts, <8 x float> zeroinitializer, <8 x float> %c0_0_stored
  %c0_0 = fadd <8 x float> %c0_0_old, %sum0_0_single_total
  %c0_1_at = getelementptr float, ptr %c, i64 8
  %c0_1_stored = load <8 x float>, ptr %c0_1_at, align 4
  %c0_1_old = select <8 x i1> %firsts, <8 x float> zeroinitializer, <8 x float> %c0_1_stored
  %c0_1 = fadd <8 x float> %c0_1_old, %sum0_1_single_total
  store <8 x float> %c0_0, ptr %c0_0_at, align 4
  store <8 x float> %c0_1, ptr %c0_1_at, align 4
  %c1_0_at = getelementptr float, ptr %c_row1, i64 0
  %c1_0_stored = load <8 x float>, ptr %c1_0_at, align 4
  %c1_0_old = select <8 x i1> %firsts, <8 x float> zeroinitializer, <8 x float> %c1_0_stored
  %c1_0 = fadd <8 x float> %c1_0_old, %sum1_0_single_total
  %c1_1_at = getelementptr float, ptr %c_row1, i64 8
  %c1_1_stored = load <8 x float>, ptr %c1_1_at, align 4
  %c1_1_old = select <8 x i1> %firsts, <8 x float> zeroinitializer, <8 x float> %c1_1_stored
  %c1_1 = fadd <8 x float> %c1_1_old, %sum1_1_single_total
  store <8 x float> %c1_0, ptr %c1_0_at, align 4
  store <8 x float> %c1_1, ptr %c1_1_at, align 4
  ret void
}
